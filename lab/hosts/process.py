"""A program running in a host: its own process group, its output in files, an end that always comes."""

import os
import signal
import subprocess

from .wait import PATIENCE_S, LabError, wait_until

# How long a program may take to end after SIGTERM before it is killed.
GRACE_S = 10.0
TAIL_LINES = 40


class Process:
    """A started program. Standard output goes to `NAME.out`, standard error to `NAME.err`, appended over restarts.

    Standard input is a pipe that stays open: programs of the lab end when it closes, so they also end with the lab.
    """

    def __init__(self, argv, name, directory, env):
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.argv = [str(word) for word in argv]
        self.out = directory / f"{name}.out"
        self.err = directory / f"{name}.err"
        self._out_start = self.out.stat().st_size if self.out.exists() else 0
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self._popen = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=out, stderr=err, env=env, start_new_session=True
            )

    @property
    def pid(self):
        """Id of the program itself (`ip netns exec` replaces itself by it)."""
        return self._popen.pid

    @property
    def alive(self):
        return self._popen.poll() is None

    @property
    def returncode(self):
        return self._popen.poll()

    def output(self):
        """What this start of the program has written to standard output so far."""
        with self.out.open("rb") as file:
            file.seek(self._out_start)
            return file.read().decode(errors="replace")

    def wait_for_output(self, text, timeout=PATIENCE_S):
        """Waits until `text` stands in the output; an early end of the program is an error."""

        def there():
            # The order matters: a program may write and end between two looks.
            ended = not self.alive
            if text in self.output():
                return True
            if ended:
                raise LabError(f"{self.name} ended with {self.returncode} before writing {text!r}\n{self.tail()}")
            return False

        wait_until(there, f"{self.name} to write {text!r}", timeout, self.tail)

    def write(self, text):
        """Writes to the program's standard input."""
        self._popen.stdin.write(text.encode())
        self._popen.stdin.flush()

    def close_input(self):
        """Ends standard input, the sign for the lab's own programs to finish."""
        if self._popen.stdin and not self._popen.stdin.closed:
            self._popen.stdin.close()

    def wait(self, timeout=PATIENCE_S):
        """Waits for the end and returns the exit code."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} did not end within {timeout:.0f} s\n{self.tail()}") from None

    def stop(self):
        """SIGTERM, then SIGKILL when that is not enough; returns the exit code. Harmless when it has ended."""
        return self._end(signal.SIGTERM)

    def kill(self):
        """SIGKILL: what a crash or a power cut looks like to the program's peers."""
        return self._end(signal.SIGKILL)

    def rss_kib(self, field="VmRSS"):
        """Memory of the program in KiB: `VmRSS` now, `VmHWM` at its highest (proc(5))."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise LabError(f"{self.name} has no {field}: it has ended")

    def tail(self):
        """The last lines of both files, for error messages."""
        parts = [f"$ {' '.join(self.argv)}  (exit code: {self.returncode})"]
        for path in (self.out, self.err):
            lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            if lines:
                parts += [f"--- {path}", *lines]
        return "\n".join(parts)

    def _end(self, number):
        # The group is addressed only while its leader is not collected: until then its id cannot be another's.
        if self.alive:
            os.killpg(self.pid, number)
            try:
                self._popen.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self._popen.wait()
        self.close_input()
        return self._popen.returncode
