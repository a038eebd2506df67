# Sourced by the entry script and by every kernel: puts the versions that were asked for first in PATH.
#
#   PYTHON_VERSION JAVA_VERSION NODE_VERSION GO_VERSION    "3.13", "21", "v22", "go1.24": of /opt/<language>/<version>
#
# Each kernel asks for itself, so that one which execd starts ahead of the entry script gets the same.

# find_home LANGUAGE VERSION: sets home to the directory that is this version, or to the newest that begins with it.
find_home() {
    home=/opt/$1/$2
    [ ! -d "$home/bin" ] || return 0
    home=$(for home in "$home".*; do
        [ ! -d "$home/bin" ] || echo "$home"
    done | sort -V | tail -n 1)
}

# use LANGUAGE VERSION
use() {
    [ -n "$2" ] || return 0
    wanted=${2#go}
    find_home "$1" "${wanted#v}"
    if [ -z "$home" ]; then
        echo "code-interpreter: there is no $1 $2 in this image, the usual one is used; there are:" \
            "$(ls "/opt/$1" 2>/dev/null | tr '\n' ' ')" >&2
        return 0
    fi
    PATH=$home/bin:$PATH
    case $1 in
    java) export JAVA_HOME="$home" ;;
    go) export GOROOT="$home" ;;
    esac
}

use python "${PYTHON_VERSION:-}"
use java "${JAVA_VERSION:-}"
use node "${NODE_VERSION:-}"
use go "${GO_VERSION:-}"
export PATH
