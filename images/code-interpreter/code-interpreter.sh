#!/bin/sh
# Entry script of the code interpreter. The kernels are installed in the image and started by execd, so there is nothing to
# wait for: it picks the versions that were asked for, where there is more than one, and stays.
#
#   PYTHON_VERSION JAVA_VERSION NODE_VERSION GO_VERSION    of /opt/<language>/<version>, as far as those are there
envs=${EXECD_ENVS:-/opt/opensandbox/.env}

# use LANGUAGE VERSION: the newest directory that is this version or begins with it.
use() {
    [ -n "$2" ] || return 0
    for home in "/opt/$1/$2" "/opt/$1/$2".*; do
        [ -d "$home/bin" ] && found=$home
    done
    if [ -z "${found:-}" ]; then
        echo "code-interpreter: $1 $2 is not in this image, the one it has is used" >&2
        return 0
    fi
    PATH=$found/bin:$PATH
    case $1 in
    java) echo "JAVA_HOME=$found" >>"$envs" ;;
    go) echo "GOROOT=$found" >>"$envs" ;;
    esac
    echo "PATH=$PATH" >>"$envs"
    found=
}

if [ -d /usr/local/go/bin ]; then
    PATH=$PATH:/usr/local/go/bin
    echo "PATH=$PATH" >>"$envs"
fi
use python "${PYTHON_VERSION:-}"
use java "${JAVA_VERSION:-}"
use node "${NODE_VERSION:-}"
use go "${GO_VERSION:-}"
[ $# -eq 0 ] || exec "$@"
exec tail -f /dev/null
