"""What `make order` sees of a program: which functions run, in each part of its life."""

import platform
import shutil
import signal
import subprocess
import sys

import pytest

from lab.hosts import functions
from lab.hosts.wait import wait_until

PROGRAM = """
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static volatile sig_atomic_t asked, left;
void at_start(void) {}
void in_a_thread(void) {}
void never(void) {}
void at_rest(void) {}
void on_signal(int number) { asked = number; }
void leave(int number) { left = number; }
void *thread(void *unused) { in_a_thread(); return unused; }
int main(int count, char **words) {
    pthread_t other;
    signal(SIGHUP, on_signal);
    signal(SIGTERM, leave);
    at_start();
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    while (!left) { at_rest(); usleep(1000); }
    if (count > 5) never();
    return 40 + count;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("cc"), reason="needs a compiler of C, and x86-64")
@pytest.mark.parametrize("kind", ["-no-pie", "-static-pie"])
def test_each_function_that_runs_is_noted_once_in_each_part(tmp_path, kind):
    source, program, output = tmp_path / "main.c", tmp_path / "main", tmp_path / "output"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-O0", kind, "-pthread", source, "-o", program], check=True)
    names = functions.symbols(program)

    def parts():
        """The functions of the program in each part."""
        text = output.read_text() if output.exists() else ""
        own = ("main", "at_start", "at_rest", "in_a_thread", "never", "on_signal", "leave")
        return [sorted(name for line in part.split() if (name := names[int(line, 16)]) in own) for part in text.split("again\n")]

    traced = subprocess.Popen([sys.executable, "-I", functions.__file__, program, output, "a word"])
    try:
        started = ["at_rest", "at_start", "in_a_thread", "main"]
        wait_until(lambda: parts()[0] == started, "the start")
        traced.send_signal(signal.SIGUSR1)
        wait_until(lambda: parts()[1:] == [["at_rest"]], "the rest")
        traced.send_signal(signal.SIGHUP)
        wait_until(lambda: parts()[1:] == [["at_rest", "on_signal"]], "a signal to be passed on")
        traced.send_signal(signal.SIGTERM)
        assert traced.wait(timeout=60) == 42
        assert parts() == [started, ["at_rest", "leave", "on_signal"]]
    finally:
        traced.kill()
        traced.wait()
