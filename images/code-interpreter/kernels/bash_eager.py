"""The kernel of bash_kernel without the 50 ms that pexpect waits ahead of each line it sends. They are for programs that are late to
switch the echo of a password off; here nothing is echoed, and every line waits for the prompt of the one before. With them a line of
code takes a tenth of a second, and the start of the kernel two seconds."""

import time

import pexpect
from bash_kernel.kernel import BashKernel
from ipykernel.kernelapp import IPKernelApp


class Spawn(pexpect.spawn):
    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.delaybeforesend = None

    def sendintr(self):
        """Ctrl-C is for what has the terminal: a pipeline that bash is about to start has not got it yet, and would go on."""
        time.sleep(0.05)
        super().sendintr()


pexpect.spawn = Spawn
IPKernelApp.launch_instance(kernel_class=BashKernel)
