#!/usr/bin/env python3
"""msc k8s: every form of manifest has the fields that its kind needs, nothing unknown, and a command that msc takes:
what a pod would run is run here, with what Kubernetes would set."""
import os
import re
import subprocess
import sys

from expect import MSC, Expect
from small_models import write_one_product

try:
    import yaml
except ImportError:
    yaml = None

expect = Expect()
write_one_product(name="My_Net 2")
expect("compile net.mlir -o net.bin --set device_num=4 --set parallel_mode=data_parallel", 0, None)

# The fields of each kind that may occur, from the published schemas (Kubernetes 1.31, JobSet 0.7, Trainer 2.0, MPI
# 2beta1).
META = {"name", "labels"}
JOB = {"completionMode", "completions", "parallelism", "backoffLimit", "podFailurePolicy", "template"}
POD = {"restartPolicy", "subdomain", "terminationGracePeriodSeconds", "securityContext", "volumes", "containers"}
CONTAINER = {"name", "image", "securityContext", "volumeMounts", "command", "env"}
SPECS = {
    ("v1", "Service"): ({"clusterIP", "publishNotReadyAddresses", "selector"}, {"clusterIP", "selector"}),
    ("batch/v1", "Job"): (JOB, {"template", "backoffLimit"}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): ({"network", "failurePolicy", "replicatedJobs"}, {"replicatedJobs"}),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): ({"runtimeRef", "trainer"}, {"runtimeRef", "trainer"}),
    ("kubeflow.org/v2beta1", "MPIJob"): ({"slotsPerWorker", "mpiImplementation", "sshAuthMountPath",
                                          "runPolicy", "mpiReplicaSpecs"},
                                         {"mpiReplicaSpecs"}),
}
KINDS = {"job": ["Service", "Job"], "jobset": ["JobSet"], "trainjob": ["TrainJob"], "mpijob": ["MPIJob"],
         "roles": ["Service", "Job", "Job"]}


def pods(document):
    """The pod specs of a document and the Job spec around each, if there is one."""
    spec = document["spec"]
    if document["kind"] == "Job":
        yield spec["template"]["spec"], spec
    for job in spec.get("replicatedJobs", ()):
        assert set(job) == {"name", "replicas", "template"} and set(job["template"]) == {"spec"}, job
        yield job["template"]["spec"]["template"]["spec"], job["template"]["spec"]
    for replica in spec.get("mpiReplicaSpecs", {}).values():
        assert set(replica) == {"replicas", "template"} and replica["replicas"] > 0, replica
        yield replica["template"]["spec"], None


def check_pod(pod, job):
    assert set(pod) <= POD and pod["restartPolicy"] == "Never", pod  # podFailurePolicy needs Never
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0, pod
    (container,) = pod["containers"]
    assert set(container) <= CONTAINER and container["image"] == "reg/i:1", container
    assert container["securityContext"]["readOnlyRootFilesystem"] is True, container
    assert all(isinstance(word, str) for word in container["command"]), container
    assert {m["name"] for m in container["volumeMounts"]} <= {v["name"] for v in pod["volumes"]}, pod
    for variable in container.get("env", ()):
        assert set(variable) in ({"name", "value"}, {"name", "valueFrom"}), variable
        assert isinstance(variable.get("value", ""), str), variable
    if job:
        assert set(job) <= JOB, job
        rules = job["podFailurePolicy"]["rules"]
        assert rules[1] == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2, 70]}}, rules
        if job.get("completionMode") == "Indexed":
            assert job["completions"] == job["parallelism"] > 0, job
    return container


def check_form(form, workers):
    text = expect(f"k8s net.bin --image reg/i:1 --form {form} --workers {workers} -- --steps 3 --ckpt-dir /data/c", 0,
                  "").stdout.decode()
    if not yaml:
        expect.check(f"{form}: kinds", re.findall(r"^kind: (\w+)", text, re.M) == KINDS[form])
        return
    documents = [d for d in yaml.safe_load_all(text) if d]
    assert [d["kind"] for d in documents] == KINDS[form], text
    commands = []
    for d in documents:
        allowed, needed = SPECS[d["apiVersion"], d["kind"]]
        assert set(d) == {"apiVersion", "kind", "metadata", "spec"} and set(d["metadata"]) <= META, d
        assert needed <= set(d["spec"]) <= allowed, d["spec"]
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", d["metadata"]["name"]), d["metadata"]
        commands += [check_pod(*pod)["command"] for pod in pods(d)]
        if d["kind"] == "TrainJob":
            commands.append(d["spec"]["trainer"]["command"])
            assert d["spec"]["trainer"]["numNodes"] == workers, d
        if d["kind"] == "Service":
            labels = next(e for e in documents if e["kind"] == "Job")["spec"]["template"]["metadata"]["labels"]
            assert d["spec"]["selector"].items() <= labels.items(), (d, labels)
    expect.cases += 1
    return commands


def check_command(command, env):
    """What a pod would run, with `msc run` replaced by what says which rank it is."""
    words = [MSC if w == "msc" else w for w in command]
    at = words.index("run")
    assert words[at - 1] == MSC and words[at + 1:] == ["/job/plan.bin", "--trust-native", "--steps", "3",
                                                       "--ckpt-dir", "/data/c"], words
    say = ["sh", "-c", "echo $MSC_RANK $MSC_RANKS $MSC_ADDRESS"]
    run = subprocess.run(words[:at - 1] + say, capture_output=True, text=True, env={**os.environ, **env}, timeout=30)
    return sorted(run.stdout.splitlines())


for form in KINDS:
    for workers in (4, 2) if form != "roles" else (4,):
        try:
            commands = check_form(form, workers)
            local = 4 // workers
            if yaml and form in ("job", "jobset", "trainjob"):
                host = {"job": "my-net-2-0.my-net-2", "jobset": "my-net-2-ranks-0-0.my-net-2", "trainjob": "m"}[form]
                env = {"JOB_COMPLETION_INDEX": "1"} if form != "trainjob" else {
                    "PET_NNODES": str(workers), "PET_NODE_RANK": "1",
                    "PET_MASTER_ADDR": "m", "PET_MASTER_PORT": "29500"}
                wanted = [f"[{r}] {r} 4 {host}:29500" for r in range(local, 2 * local)]
                said = check_command(commands[0], env)
                expect.check(f"{form}: ranks of the second pod: {said}", said == wanted)
        except (AssertionError, KeyError, ValueError) as e:
            expect.fail(form, f"{workers} workers", "a right manifest", repr(e))

expect("k8s net.bin", 2, "msc k8s: error: --image is needed (msc k8s --help)\n", "")
expect("k8s net.bin --image i --workers 3", 2,
       "msc k8s: error: --workers 3: the plan's 4 ranks do not divide among them (msc k8s --help)\n", "")
expect("k8s net.bin --image i --form roles --workers 2", 2,
       "msc k8s: error: --form roles: a worker is one rank, so there are 4 (msc k8s --help)\n", "")

# Servers of parameters are in the pod of all ranks: what it runs is run here, with a plan that has them.
SERVED = "parameter_server={\"mode\":\"sync\"}"
expect(["compile", "net.mlir", "-o", "served.bin", "--set", "device_num=2", "--set", "parallel_mode=data_parallel",
        "--set", "gradients_mean=true", "--set", SERVED], 0, None)
RUN = ["--data", "x=x.idx", "--steps", "3", "--json"]
wanted = expect(["run", "served.bin", "--servers", "0", *RUN], 0, None).stdout.decode()
for form in ("job", "jobset"):
    text = expect(["k8s", "served.bin", "--image", "reg/i:1", "--servers", "2", "--form", form, "--plan", "served.bin",
                   "--", *RUN], 0, "").stdout.decode()
    if not yaml:
        continue
    (job,) = (d for d in yaml.safe_load_all(text) if d and d["kind"] in ("Job", "JobSet"))
    ((pod, spec),) = pods(job)
    expect.check(f"{form}: one pod", spec["completions"] == spec["parallelism"] == 1)
    command = check_pod(pod, spec)["command"]
    said = command[command.index("--servers") + 1] if "--servers" in command else "none"
    expect.check(f"{form}: servers: {said}", said == "2" and "--master" not in command)
    pod_env = {**os.environ, "JOB_COMPLETION_INDEX": "0", "MSC_TOKEN": "0123456789abcdef0123456789abcdef"}
    run = subprocess.run([MSC if w == "msc" else w for w in command], capture_output=True, text=True, timeout=60,
                         env=pod_env)
    expect.check(f"{form}: losses with servers: {run.stdout} {run.stderr}",
                 re.findall(r'"loss": ?[^,}]*', run.stdout) == re.findall(r'"loss": ?[^,}]*', wanted) != [])
for words, said in (("net.bin --servers 2", "no parameter of the plan lives on servers"),
                    ("served.bin --servers 0", "--servers is 1 to 64"),
                    ("served.bin --servers 1 --workers 2", "in one pod with all their ranks: --workers is 1"),
                    ("served.bin --servers 1 --form roles", "--servers goes with --form job and jobset")):
    expect(f"k8s {words} --image i", 2, lambda text: "" if said in text else text, "")
expect("k8s net.bin --image i --name A", 2, lambda text: "" if "'A' is no name of Kubernetes" in text
       and "'a' is one" in text else text, "")
expect("k8s net.mlir --image i", 1, lambda text: "" if "net.mlir: error: " in text and "not a plan" in text else text,
       "")
run = expect(["k8s", "net.bin", "--image", 'a"b', "-o", "k.yaml"], 0, "", "")
expect.check("quotes", 'image: "a\\"b"' in open("k.yaml").read())
if not yaml:
    print("PyYAML is missing: fields were not checked", file=sys.stderr)
expect.done()
