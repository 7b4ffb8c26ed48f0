"""Plans: msc.compile turns a model into one, in this process; Plan.run executes it."""
import ctypes
import json
import os
import subprocess
import tempfile
import warnings
import weakref
from ctypes import byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_void_p
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from msc import native, runtime
from msc.native import CompileError, CompileWarning, Message
from msc.ops import Error
from msc.processes import from_torchrun
from msc.runtime import c_text


class Variable(NamedTuple):
    """An input, output or parameter: its element type, its shape, and the dimension along which samples lie (None:
    none)."""
    dtype: str
    shape: Tuple[int, ...]
    batch: Optional[int] = None
    role: str = "data"
    reads_labels: bool = False


def _model_bytes(model) -> Tuple[str, bytes, str]:
    """Its name for messages, its bytes, and the folder in which its weight files lie."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        with open(path, "rb") as f:
            return path, f.read(), os.path.dirname(path) or "."
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "model", bytes(model), "."
    if hasattr(model, "encode") and hasattr(model, "model"):
        return model.name or "model", model.encode("."), "."
    raise Error(f"a model is a Graph, a path or the bytes of a model.fbs, not {type(model).__name__}"
                f"{'; msc.export makes one of a PyTorch module' if hasattr(model, 'named_parameters') else ''}")


def _messages(library, compiler):
    kinds = ("error", "warning", "note", "remark")
    found = []
    for i in range(library.msc_compiler_num_messages(compiler)):
        m = library.msc_compiler_message(compiler, i)
        text = {
            n: v.decode(errors="replace") if v else None
            for n, v in (("text", m.text), ("file", m.file), ("op", m.op))
        }
        found.append(
            Message(kinds[m.kind], m.code.decode(), text["text"] or "", text["file"], m.line, m.column, text["op"]))
    return found


def _warn(messages):
    for i, m in enumerate(messages):
        if m.kind == "warning":
            notes = []
            for n in messages[i + 1:]:
                if n.kind != "note":
                    break
                notes.append(str(n))
            warnings.warn("\n".join([str(m), *notes]), CompileWarning, stacklevel=3)


def compile(model,
            *,
            target: Optional[str] = None,
            cpu: Optional[str] = None,
            cluster: Optional[str] = None,
            time_limit: float = 0,
            sizes: Optional[Dict[str, int]] = None,
            libraries: Optional[str] = None,
            **keys: Any) -> "Plan":
    """Compiles a model: a Graph, the path of a model.fbs or of IR text, or its bytes.

    keys are those of `msc config`: device_num=8, parallel_mode="auto_parallel", compute_type="bf16", ...
    Unless variable_lr=False is among them, Job.lr can be changed between steps; with variable_hypers=True so can the
    optimizer's other numbers, by Job.step(..., momentum=0.95) or Job.set("optimizer.momentum", 0.95).
    target: "cpu", "cuda" or "cuda:sm_90"; cpu: as "znver3"; cluster: a described one, as "h100"; time_limit: seconds
    of the search; sizes: of dimensions that the model leaves open, {"batch": 32}; libraries: the folder of libmsc and
    libmscrt.

    Raises CompileError, with all messages and the user's places; warns with CompileWarning.

        plan = msc.compile(graph, device_num=2, parallel_mode="data_parallel")
    """
    name, data, folder = _model_bytes(model)
    library = native.compiler(libraries)
    opened = (native.OpenSize * max(len(sizes or {}), 1))(*((c_text(n), s) for n, s in (sizes or {}).items()))
    words = [None if w is None else c_text(w) for w in (target, cpu, cluster)]
    options = native.CompilerOptions(ctypes.sizeof(native.CompilerOptions), 0, *words, time_limit, len(sizes or {}),
                                     opened)
    compiler = library.msc_compiler_new(byref(options))
    if not compiler:
        raise MemoryError("msc.compile")
    try:
        text = json.dumps({"variable_lr": True, **keys}).encode()
        out, num = c_void_p(), c_size_t()
        ok = library.msc_compiler_configure(compiler, b"keys", text, len(text))
        ok = ok and native.interruptible(
            lambda: library.msc_compiler_compile(compiler, c_text(name), data, len(data), byref(out), byref(num)),
            lambda: library.msc_compiler_cancel(compiler))
        messages = _messages(library, compiler)
        if not ok:
            raise CompileError(messages)
        _warn(messages)
        report = native.Report(struct_size=ctypes.sizeof(native.Report))
        library.msc_compiler_report(compiler, byref(report))
        plan = Plan(ctypes.string_at(out, num.value), libraries=libraries, folder=folder)
        plan.memory = {n: getattr(report, n) for n in native.Report.MEMORY if getattr(report, n)}
        plan.memory["all"] = report.memory_bytes
        plan.predicted_step_ms = report.predicted_step_ns / 1e6
        options_again = dict(target=target,
                             cpu=cpu,
                             cluster=cluster,
                             time_limit=time_limit,
                             sizes=sizes,
                             libraries=libraries)
        mode = {} if "parallel_mode" in keys else {"parallel_mode": "auto_parallel"}
        plan._recompile = lambda ranks: compile(model, **options_again, **{**keys, **mode, "device_num": ranks})
        return plan
    finally:
        library.msc_compiler_free(compiler)


class Plan:
    """A compiled model.

    ranks: how many it is for.  micro_batches: of how many a training step takes a batch each.  inputs, parameters,
    outputs["forward"]: name -> Variable.  scalars: numbers that Job.set changes, with their initial values.  memory:
    bytes of a rank by what they hold, and "all" (of plans compiled here).  predicted_step_ms: on the cluster it was
    compiled for (of plans compiled here). data: the bytes of plan.bin, which hold native code: whoever runs a plan
    executes it."""

    def __init__(self, data: bytes, libraries: Optional[str] = None, folder: str = "."):
        self.data, self._libraries, self._folder = data, libraries, folder
        self.memory: Dict[str, int] = {}
        self.predicted_step_ms: Optional[float] = None
        self._recompile = None
        self._others: Dict[int, "Plan"] = {}
        self.library = native.executor(libraries)
        self.handle = c_void_p()
        trust = runtime._PlanOptions(ctypes.sizeof(runtime._PlanOptions), True)
        native.check(self.library, self.library.mscrt_plan_open(data, len(data), byref(trust), byref(self.handle)))
        weakref.finalize(self, self.library.mscrt_plan_close, self.handle)
        self.ranks: int = self.library.mscrt_plan_ranks(self.handle)
        self.micro_batches: int = self.library.mscrt_plan_micro(self.handle, b"train") or 1
        self.inputs: Dict[str, Variable] = dict(self._read_inputs())
        self.parameters: Dict[str, Variable] = dict(self._read_parameters())
        self.scalars: Dict[str, float] = dict(self._read_scalars())
        self.outputs: Dict[str, Dict[str, Variable]] = {}
        for section, name, v in self._read_outputs():
            self.outputs.setdefault(section, {})[name] = v

    @classmethod
    def load(cls, path, libraries: Optional[str] = None) -> "Plan":
        """A plan from a file.  Its native code is trusted: load only plans of whom you trust."""
        path = os.fspath(path)
        with open(path, "rb") as f:
            plan = cls(f.read(), libraries)
        folder = plan.library.mscrt_plan_weights(plan.handle)
        plan._folder = os.path.join(os.path.dirname(path) or ".", (folder or b"").decode())
        return plan

    def save(self, path) -> None:
        """Writes plan.bin; what stood there before stays until the new one is complete."""
        path = os.fspath(path)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as out:
                out.write(self.data)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise

    def explain(self, *what: str) -> str:
        """What `msc explain` says of the plan: why every op is cut as it is; of the ops whose names are given only."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.bin")
            self.save(path)
            done = subprocess.run([native.find_program(self._libraries), "explain", path, *what],
                                  capture_output=True,
                                  text=True)
        if done.returncode:
            raise Error(done.stderr.strip())
        return done.stdout

    @property
    def trains(self) -> bool:
        """Has it steps of training, or is it for evaluation and predictions alone?"""
        return bool(self.library.mscrt_plan_has(self.handle, b"train"))

    @property
    def loss_adds_up(self) -> bool:
        """Do the losses of several batches tell that of all their samples?  Not where the loss pairs samples."""
        return self._loss_of_many()[0]

    def _loss_of_many(self) -> Tuple[bool, Optional[str]]:
        """loss_adds_up, and the output of an evaluation by which batches count; None: they count alike."""
        divisor = c_char_p()
        adds_up = self.library.mscrt_plan_loss_adds_up(self.handle, byref(divisor))
        return adds_up, divisor.value.decode() if divisor.value else None

    def run(self,
            ranks: Optional[int] = None,
            *,
            seed: int = 0,
            threads: int = 0,
            timeout: float = 300,
            rank: Union[int, str, None] = None,
            address: Optional[str] = None,
            parameters_of=None):
        """Starts a job, as threads of this process: `with plan.run(ranks=4, seed=1) as job: ...`; msc.spawn starts
        processes.

        ranks: other than the plan is for compiles it again for so many, in auto_parallel unless parallel_mode was
        given.  threads: of each rank, 0: cores divided by the ranks. rank, address: this process is one rank of a job
        of several processes, which meet at the same address ("@NAME"); rank="torchrun": this process is one that
        torchrun started, all on this host. Every process makes the same calls; batches are whole, as everywhere.
        Parameters start with the values of the model's files, or those of the seed.  parameters_of: a job of as many
        ranks, of a plan of the same model with other batches, or without training; this one has its parameters, in the
        same memory."""
        from msc.job import Job
        if rank == "torchrun":
            rank, address = from_torchrun(ranks or self.ranks)
        if ranks in (None, self.ranks):
            return Job(self,
                       seed=seed,
                       threads=threads,
                       timeout=timeout,
                       rank=rank,
                       address=address,
                       parameters_of=parameters_of)
        if self._recompile is None:
            raise Error(f"the plan is for {self.ranks} ranks, not for {ranks}: compile it with device_num={ranks}")
        if ranks not in self._others:
            self._others[ranks] = self._recompile(ranks)
        return self._others[ranks].run(seed=seed,
                                       threads=threads,
                                       timeout=timeout,
                                       rank=rank,
                                       address=address,
                                       parameters_of=parameters_of)

    def _describe(self, tensor, batch=-1, **more):
        dtype = runtime.DTYPES[tensor.dtype][0]
        return tensor.name.decode(), Variable(dtype, tuple(tensor.shape[:tensor.rank]), None if batch < 0 else batch,
                                              **more)

    def _read_inputs(self):
        for i in range(self.library.mscrt_plan_num_inputs(self.handle)):
            tensor, role = runtime._Tensor(), c_int()
            self.library.mscrt_plan_input(self.handle, i, byref(tensor), byref(role))
            yield self._describe(tensor,
                                 self.library.mscrt_plan_input_batch(self.handle, i),
                                 role=("data", "label", "mask")[role.value])

    def _read_parameters(self):
        for i in range(self.library.mscrt_plan_num_parameters(self.handle)):
            tensor, is_state = runtime._Tensor(), c_bool()
            self.library.mscrt_plan_parameter(self.handle, i, byref(tensor), byref(is_state))
            yield self._describe(tensor, role="state" if is_state else "parameter")

    def _read_scalars(self):
        for i in range(self.library.mscrt_plan_num_scalars(self.handle)):
            initial = c_double()
            name = self.library.mscrt_plan_scalar(self.handle, i, byref(initial))
            yield name.decode(), initial.value

    def _read_outputs(self):
        for i in range(self.library.mscrt_plan_num_outputs(self.handle)):
            tensor, section = runtime._Tensor(), c_char_p()
            self.library.mscrt_plan_output(self.handle, i, byref(tensor), byref(section))
            name, v = self._describe(tensor,
                                     self.library.mscrt_plan_output_batch(self.handle, i),
                                     role="output",
                                     reads_labels=self.library.mscrt_plan_output_reads_labels(self.handle, i))
            yield section.value.decode(), name, v

    def __repr__(self):
        return (f"Plan({self.ranks} rank{'s' if self.ranks > 1 else ''}, {len(self.data)} bytes, "
                f"inputs: {', '.join(self.inputs)})")
