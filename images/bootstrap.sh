#!/bin/sh
# The first program of a sandbox in images that expect the reference's layout. It makes the sandbox
# trust the egress proxy where there is one, prepares what commands will find in their environment,
# and hands over to execd, which runs the user's command beside serving:
#
#   bootstrap.sh [argument...]     runs these words as they are
#   bootstrap.sh -c words...       runs them with a shell
#   BOOTSTRAP_CMD=text bootstrap.sh
#   bootstrap.sh                   a bare shell
#
# Everything about trust is best effort: a sandbox without it is better than none.

OPENSANDBOX_DIR=${OPENSANDBOX_DIR:-/opt/opensandbox}
EXECD="${EXECD:=$OPENSANDBOX_DIR/execd}"
OPENSANDBOX_CA=$OPENSANDBOX_DIR/mitmproxy-ca-cert.pem
OPENSANDBOX_MERGED_CA=$OPENSANDBOX_DIR/merged-ca-certificates.pem
OPENSANDBOX_JAVA_CA=$OPENSANDBOX_DIR/java-cacerts
CA_WAIT_SECONDS=${OPENSANDBOX_CA_WAIT_SECONDS:-300}

say() {
    echo "bootstrap: $*" >&2
}

is_true() {
    case $(printf %s "${1:-}" | tr '[:upper:]' '[:lower:]') in
    1 | true | yes | y | on) return 0 ;;
    esac
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Copies the certificate to $1 and runs the rest of the arguments, if the directory is there.
install_ca_with() {
    target=$1
    shift
    [ -d "${target%/*}" ] && command -v "$1" >/dev/null 2>&1 || return 1
    as_root cp "$OPENSANDBOX_CA" "$target" && as_root "$@" >/dev/null 2>&1
}

install_system_ca() {
    install_ca_with /usr/local/share/ca-certificates/opensandbox-egress.crt update-ca-certificates && return 0
    install_ca_with /etc/pki/ca-trust/source/anchors/opensandbox-egress.pem update-ca-trust extract && return 0
    install_ca_with /etc/ca-certificates/trust-source/anchors/opensandbox-egress.crt update-ca-trust extract && return 0
    install_ca_with /usr/share/pki/trust/anchors/opensandbox-egress.pem update-ca-certificates && return 0
    say "no tool for the system's trust store; only environment variables point to the certificate"
}

# The roots that the merged bundle begins with: certifi's where Python has it, else the system's.
find_roots() {
    for python in python3 python; do
        roots=$("$python" -c 'import certifi; print(certifi.where())' 2>/dev/null) && [ -r "$roots" ] && {
            printf %s "$roots"
            return 0
        }
    done
    for roots in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem \
        /etc/ssl/cert.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do
        [ -r "$roots" ] && {
            printf %s "$roots"
            return 0
        }
    done
    return 1
}

merge_ca() {
    roots=$(find_roots) || roots=/dev/null
    tmp=$OPENSANDBOX_MERGED_CA.$$
    { cat "$roots" && echo && cat "$OPENSANDBOX_CA"; } >"$tmp" 2>/dev/null && chmod 644 "$tmp" &&
        mv -f "$tmp" "$OPENSANDBOX_MERGED_CA" && return 0
    rm -f "$tmp"
    return 1
}

import_nss_ca() {
    command -v certutil >/dev/null 2>&1 && [ -n "${HOME:-}" ] || return 0
    db=$HOME/.pki/nssdb
    mkdir -p "$db" && { [ -f "$db/cert9.db" ] || certutil -d "sql:$db" -N --empty-password; } >/dev/null 2>&1
    certutil -d "sql:$db" -A -t C,, -n opensandbox-egress -i "$OPENSANDBOX_CA" >/dev/null 2>&1 ||
        say "the certificate could not be added to $db"
}

# The certificates of the file as a JSON list of what is between their marks.
ca_as_json() {
    list=
    while IFS= read -r line; do
        case $line in
        *"BEGIN CERTIFICATE"*) der= ;;
        *"END CERTIFICATE"*) list="$list${list:+,}\"$der\"" ;;
        *) der=$der$line ;;
        esac
    done <"$OPENSANDBOX_CA"
    printf '[%s]' "$list"
}

# Firefox's policies with the certificate in them. What the image says in $1 stays; where it cannot
# be understood, or nothing here can read it, it is left alone.
firefox_policy() {
    if [ ! -s "$1" ]; then
        printf '{"policies":{"Certificates":{"Install":["%s"]}}}' "$OPENSANDBOX_CA"
    elif grep -qsF "\"$OPENSANDBOX_CA\"" "$1"; then
        cat "$1" # from an earlier start
    else
        python3 -c 'import json, sys
root = json.load(open(sys.argv[1]))
install = root.setdefault("policies", {}).setdefault("Certificates", {}).setdefault("Install", [])
install.append(sys.argv[2])
print(json.dumps(root, indent=2))' "$1" "$OPENSANDBOX_CA" 2>/dev/null
    fi
}

# Writes $policy to $1, where directories may be missing. Who runs the browser is to read it.
install_policy() (
    umask 022
    as_root mkdir -p "${1%/*}" && printf '%s\n' "$policy" | as_root tee "$1" >/dev/null
) 2>/dev/null

# Browsers look at no store of the system's, but at policies. They may be installed later, so whether
# they are there is not asked.
tell_browsers() {
    missed=
    for target in /etc/firefox/policies/policies.json /etc/firefox-esr/policies/policies.json; do
        policy=$(firefox_policy "$target") && install_policy "$target" || missed="$missed $target"
    done
    policy="{\"CACertificates\":$(ca_as_json)}"
    for target in /etc/chromium /etc/opt/chrome /etc/opt/chrome_for_testing /etc/opt/edge /etc/brave; do
        target=$target/policies/managed/opensandbox-egress.json
        install_policy "$target" || missed="$missed $target"
    done
    [ -z "$missed" ] || say "the certificate could not be added to browsers' policies:$missed"
}

# Java has a store of its own, in a format of its own. The image's is copied, not changed; where the
# system's tool has put the certificate into it already this does no harm.
import_java_ca() {
    command -v keytool >/dev/null 2>&1 || return 0
    java_home=${JAVA_HOME:-}
    [ -n "$java_home" ] || {
        java_bin=$(readlink -f "$(command -v java 2>/dev/null || command -v keytool)")
        java_home=${java_bin%/bin/*}
    }
    for store in "$java_home/lib/security/cacerts" "$java_home/jre/lib/security/cacerts" /etc/ssl/certs/java/cacerts; do
        [ -r "$store" ] && break
    done
    rm -f "$OPENSANDBOX_JAVA_CA"
    { [ ! -r "$store" ] || cp "$store" "$OPENSANDBOX_JAVA_CA"; } 2>/dev/null && chmod u+w "$OPENSANDBOX_JAVA_CA" 2>/dev/null
    keytool -importcert -noprompt -trustcacerts -alias opensandbox-egress -storepass changeit \
        -keystore "$OPENSANDBOX_JAVA_CA" -file "$OPENSANDBOX_CA" >/dev/null 2>&1 || {
        rm -f "$OPENSANDBOX_JAVA_CA"
        say "the certificate could not be added to Java's store"
        return 0
    }
    chmod 644 "$OPENSANDBOX_JAVA_CA"
    trust_var JAVA_TOOL_OPTIONS "${JAVA_TOOL_OPTIONS:+$JAVA_TOOL_OPTIONS }-Djavax.net.ssl.trustStore=$OPENSANDBOX_JAVA_CA"
}

# Sets a variable for the user's command, and for the commands that an execd runs that is here already.
trust_var() {
    export "$1=$2"
    [ -n "${EXECD_INIT:-}" ] && [ -n "${EXECD_ENVS:-}" ] && printf '%s=%s\n' "$1" "$2" >>"$EXECD_ENVS"
    return 0
}

wait_for_ca() {
    waited=0
    while [ ! -s "$OPENSANDBOX_CA" ]; do
        [ "$waited" -ge "$CA_WAIT_SECONDS" ] && return 1
        sleep 1
        waited=$((waited + 1))
    done
}

# Lets programs in the sandbox accept what the transparent egress proxy signs.
trust_mitm_ca() {
    is_true "${OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT:-}" || return 0
    wait_for_ca || {
        say "no certificate of the egress proxy after $CA_WAIT_SECONDS s; going on without it"
        return 0
    }
    install_system_ca
    import_nss_ca
    tell_browsers
    trust_var NODE_EXTRA_CA_CERTS "$OPENSANDBOX_CA"
    import_java_ca
    merge_ca || {
        say "cannot write $OPENSANDBOX_MERGED_CA"
        return 0
    }
    for var in REQUESTS_CA_BUNDLE SSL_CERT_FILE CURL_CA_BUNDLE GIT_SSL_CAINFO; do
        trust_var "$var" "$OPENSANDBOX_MERGED_CA"
    done
}

# Where an image leaves variables for the commands to come.
prepare_envs() {
    EXECD_ENVS=${EXECD_ENVS:-$OPENSANDBOX_DIR/.env}
    export EXECD_ENVS
    { mkdir -p "${EXECD_ENVS%/*}" && [ -e "$EXECD_ENVS" ] || : >"$EXECD_ENVS"; } 2>/dev/null ||
        say "cannot create $EXECD_ENVS"
}

find_shell() {
    [ -n "${BOOTSTRAP_SHELL:-}" ] && {
        printf %s "$BOOTSTRAP_SHELL"
        return
    }
    command -v bash || command -v sh || echo /bin/sh
}

_forward_signal() {
    stopping=1
    kill -"$1" "$user_pid" 2>/dev/null
}

# The reference's arrangement, on request or when execd cannot be the parent: side by side.
run_beside() {
    [ -x "$EXECD" ] && "$EXECD" &
    stopping=
    "$@" &
    user_pid=$!
    for name in TERM INT HUP QUIT; do
        # shellcheck disable=SC2064
        trap "_forward_signal $name" "$name"
    done
    wait "$user_pid"
    status=$?
    while [ -n "$stopping" ] && kill -0 "$user_pid" 2>/dev/null; do
        wait "$user_pid" # a trapped signal ends a wait early
    done
    [ -n "$stopping" ] && exit 0
    exit "$status"
}

prepare_envs
trust_mitm_ca
if [ -n "${EXECD_BOOTSTRAP_PRE_SCRIPT:-}" ]; then
    if [ -r "$EXECD_BOOTSTRAP_PRE_SCRIPT" ]; then
        # shellcheck disable=SC1090
        . "$EXECD_BOOTSTRAP_PRE_SCRIPT"
    else
        say "EXECD_BOOTSTRAP_PRE_SCRIPT: cannot read $EXECD_BOOTSTRAP_PRE_SCRIPT"
    fi
fi

shell=$(find_shell)
if [ -n "${BOOTSTRAP_CMD:-}" ]; then
    set -- "$shell" -c "$BOOTSTRAP_CMD"
elif [ "${1:-}" = -c ]; then
    shift
    set -- "$shell" -c "$*"
elif [ $# -eq 0 ]; then
    set -- "$shell"
fi

# Under `execd init` execd is already here, and we are its entrypoint.
[ -n "${EXECD_INIT:-}" ] && exec "$@"
is_true "${EXECD_BOOTSTRAP_BESIDE:-}" && run_beside "$@"
[ -x "$EXECD" ] && exec "$EXECD" init -- "$@"
say "$EXECD is not there: the sandbox will not answer"
run_beside "$@"
