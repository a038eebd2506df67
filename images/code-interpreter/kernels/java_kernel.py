"""A Jupyter kernel for Java: the JDK's JShell, driven by JavaRunner.java. Needs ipykernel and a JDK, nothing else."""

import base64
import codecs
import os
import signal
import subprocess

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def ignore_interrupts():
    """They are for the kernel, which passes them on; and a VM that is started with them ignored leaves them so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class JavaKernel(Kernel):
    implementation = "opensandbox-java"
    implementation_version = "1"
    banner = "Java"
    language_info = {"name": "java", "mimetype": "text/x-java-source", "file_extension": ".java"}

    def __init__(self, **kw):
        super().__init__(**kw)
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        self.runner = subprocess.Popen([java, *OPTIONS, "-cp", HERE, "JavaRunner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       preexec_fn=ignore_interrupts)
        if self.runner.stdout.readline().strip() != b"d":
            raise SystemExit("Java did not start")

    def answers(self):
        """Everything the runner says until the run is over."""
        while True:
            line = self.runner.stdout.readline()
            if not line:
                os._exit(1)  # System.exit(): the state is lost, and so is this kernel
            kind, *words = line.decode("ascii").split()
            words = [base64.b64decode(w) for w in words]
            yield kind, words if kind in "oe" else [w.decode("utf-8", "replace") for w in words]
            if kind == "d":
                return

    def tell(self, line):
        self.telling = True
        self.runner.stdin.write(line + b"\n")
        self.runner.stdin.flush()
        self.telling = False
        if self.stop:
            self.interrupt()

    def interrupt(self, *_):
        """A handler and no exception, which could come anywhere: passed on, and what the runner says then is still read."""
        self.stop = True
        if not self.telling:
            os.write(self.runner.stdin.fileno(), b"!\n")

    def publish(self, kind, **content):
        self.send_response(self.iopub_socket, kind, content)

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        self.stop, self.telling = False, True
        before = signal.signal(signal.SIGINT, self.interrupt)
        try:
            return self.execute(code, silent)
        finally:
            signal.signal(signal.SIGINT, before)

    def execute(self, code, silent):
        failed, decoders = None, {k: codecs.getincrementaldecoder("utf-8")("replace") for k in "oe"}
        self.tell(base64.b64encode(code.encode()))
        for kind, words in self.answers():
            if kind in "oe" and not silent:
                text = decoders[kind].decode(words[0])
                if text:
                    self.publish("stream", name="stdout" if kind == "o" else "stderr", text=text)
            elif kind == "v" and not silent:
                self.publish("execute_result", execution_count=self.execution_count, data={"text/plain": words[0]}, metadata={})
            elif kind == "x":
                failed = {"ename": words[0], "evalue": words[1], "traceback": words[2:]}
        if failed:
            self.publish("error", **failed)
            return {"status": "error", "execution_count": self.execution_count, **failed}
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def do_shutdown(self, restart):
        self.runner.stdin.close()
        return {"status": "ok", "restart": restart}


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=JavaKernel)
