#!/bin/sh
# Entry script of the code interpreter. The kernels are installed in the image and started by execd, so there is nothing to
# wait for: it picks the versions that were asked for, tells execd, and stays, or runs what it was given.
[ -z "$PYTHON_VERSION$JAVA_VERSION$NODE_VERSION$GO_VERSION" ] || . /opt/code-interpreter/versions.sh
{
    echo "PATH=$PATH"
    echo "PIP_BREAK_SYSTEM_PACKAGES=${PIP_BREAK_SYSTEM_PACKAGES:-1}" # the sandbox is the environment: `pip install` works as it is
    [ -z "$JAVA_VERSION" ] || echo "JAVA_HOME=${JAVA_HOME:-}"
    [ -z "$GO_VERSION" ] || echo "GOROOT=${GOROOT:-}"
} >>"${EXECD_ENVS:-/opt/opensandbox/.env}"
[ $# -eq 0 ] || exec "$@"
exec tail -f /dev/null
