"""paced: a process whose output a test reads as it goes. Little fits into the pipe between them: a process that prints
a line per step is never far ahead of what the test has read, however slow the test is, or its machine."""
import fcntl
import os
import select
import subprocess
import time


class Paced:
    def __init__(self, words, **more):
        """Starts it. `out` and `said` are what it has printed so far to stdout and to stderr."""
        self.out, self.said = "", ""
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        fcntl.fcntl(self.process.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        self.open = {self.process.stdout.fileno(): "out", self.process.stderr.fileno(): "said"}

    def read_until(self, seen, seconds=600.0):
        """Reads until seen() is true; false: until both outputs are at their ends, or so long."""
        limit = time.monotonic() + seconds
        while not seen():
            if not self.open:
                return False
            ready, _, _ = select.select(list(self.open), [], [], max(0, limit - time.monotonic()))
            for fd in ready:
                data = os.read(fd, 65536)
                name = self.open[fd] if data else self.open.pop(fd)
                setattr(self, name, getattr(self, name) + data.decode())
            if not ready:
                return False
        return True

    def read_lines(self, num):
        """Reads until stdout has so many lines."""
        return self.read_until(lambda: self.out.count("\n") >= num)

    def end(self):
        """Reads all that comes; the exit code."""
        self.read_until(lambda: False)
        return self.process.wait(60)
