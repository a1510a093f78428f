#!/bin/sh
# Puts the-loop on this host and asks its doctor what else is missing.
#
#   THE_LOOP_RELEASES=DIR-OR-URL sh install.sh     a binary, checked by its digest
#   sh scripts/install.sh                          built with cargo, in a checkout
#
# --to DIR says where to; otherwise XDG_BIN_HOME or ~/.local/bin. Nothing is done
# with root, and nothing outside of that directory and a temporary one.
set -eu

say() { printf '%s\n' "$*" >&2; }

# One line that says what failed, and lines that say what to do.
fail() {
    say "install.sh: $1"
    shift
    for line in "$@"; do say "  $line"; done
    exit 1
}

usage() {
    say "usage: install.sh [--to DIR]"
    say "  THE_LOOP_RELEASES  where the files of a release are: a directory or a URL"
    exit "$1"
}

has() { command -v "$1" >/dev/null 2>&1; }

# Sets `targets`: the names of binaries that run here, the best first.
detect() {
    os=$(uname -s) machine=$(uname -m)
    case $machine in
        x86_64 | amd64) arch=x86_64 ;;
        aarch64 | arm64) arch=aarch64 ;;
        *) arch=$machine ;;
    esac
    # A kernel of 64 bits may carry a userland of 32.
    if [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 32 ]; then arch=$arch-32; fi
    case $os in
        Linux)
            targets=$arch-unknown-linux-musl
            is_musl || targets="$targets $arch-unknown-linux-gnu"
            ;;
        Darwin) targets=$arch-apple-darwin ;;
        *) fail "there is no binary for $os" "the-loop runs on Linux and on macOS." ;;
    esac
}

# Whether programs here run on musl: a loader of it may lie beside another libc.
is_musl() {
    getconf GNU_LIBC_VERSION >/dev/null 2>&1 && return 1
    # One of the two says who it is with an exit code of failure.
    case $(ldd --version 2>&1 || :) in
        *musl*) return 0 ;;
        *GNU* | *GLIBC* | *glibc*) return 1 ;;
    esac
    grep -q ld-musl- /bin/sh 2>/dev/null && return 0
    grep -q ld-linux /bin/sh 2>/dev/null && return 1
    for loader in /lib/ld-musl-*; do
        [ -e "$loader" ] && return 0
    done
    return 1
}

# Whether an http address is one of this machine's own: nothing but a host and a port
# stands before the path, so that every program reads it alike.
is_own() {
    authority=${1#http://}
    authority=${authority%%/*}
    port=
    case $authority in
        \[::1\] | localhost | 127.0.0.1) ;;
        \[::1\]:* | localhost:* | 127.0.0.1:*)
            port=${authority#\[::1\]}
            port=${port#*:}
            ;;
        *) return 1 ;;
    esac
    case $port in
        *[!0-9]*) return 1 ;;
    esac
}

# Copies a file of the release, $1, to $2.
fetch() {
    from=$releases/$1
    case $releases in
        https://*) download "$from" "$2" ;;
        http://*)
            is_own "$releases" ||
                fail "$releases is not read: it is not encrypted" "Use https, or a directory."
            download "$from" "$2"
            ;;
        file://*) copy "${from#file://}" "$2" ;;
        *://*) fail "$releases is not read" "Use a directory, file:// or https://." ;;
        *) copy "$from" "$2" ;;
    esac
}

copy() {
    [ -f "$1" ] || fail "there is no such file" "$1" \
        "THE_LOOP_RELEASES names where it is looked for."
    cp "$1" "$2"
}

download() {
    code=0
    if has curl; then
        curl --proto '=https,http' --proto-redir '=https' --fail --silent \
            --location --connect-timeout 20 --max-time 600 --max-filesize 104857600 \
            --output "$2" "$1" || code=$?
        case $code in
            0) return ;;
            # curl takes the first of these.
            60 | 77) no_certificates "${CURL_CA_BUNDLE:+CURL_CA_BUNDLE}" ;;
            22) is_not_there "$1" ;;
        esac
        fail "curl could not download a file (its exit code is $code)" "$1" \
            "Try again, or copy the files of the release into a directory and set" \
            "THE_LOOP_RELEASES to it."
    elif has wget; then
        # With GnuTLS it does not look at the variable; BusyBox's has no such option.
        authorities=
        if [ -n "${SSL_CERT_FILE:-}" ] && wget --version >/dev/null 2>&1; then
            authorities=--ca-certificate=$SSL_CERT_FILE
        fi
        wget -q -T 60 ${authorities:+"$authorities"} -O "$2" "$1" || code=$?
        case $code in
            0) return ;;
            5) no_certificates '' ;;
            8) is_not_there "$1" ;;
        esac
        fail "wget could not download a file (its exit code is $code)" "$1" \
            "Try again, or copy the files of the release into a directory and set" \
            "THE_LOOP_RELEASES to it."
    fi
    fail "there is neither curl nor wget to download with" "$1" \
        "Install one of them, or copy the files of the release into a directory" \
        "and set THE_LOOP_RELEASES to it."
}

is_not_there() {
    fail "the server has no such file" "$1" "THE_LOOP_RELEASES names where it is looked for."
}

no_certificates() {
    fail "the server's certificate cannot be checked" \
        "Install the package ca-certificates, or name the right file in" \
        "${1:-SSL_CERT_FILE}; or copy the files of the release into a directory and set" \
        "THE_LOOP_RELEASES to it."
}

# Prints the SHA-256 of a file.
digest() {
    if has sha256sum; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif has shasum; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    elif has openssl; then
        openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
    else
        fail "nothing here can check a digest" "Install sha256sum, shasum or openssl."
    fi
}

# Makes $tmp/the-loop out of the files of a release.
take_release() {
    has awk || fail "there is no awk to read SHA256SUMS with" \
        "Install the package mawk, gawk or busybox."
    fetch SHA256SUMS "$tmp/SHA256SUMS"
    name= wanted=
    for target in $targets; do
        # Two columns: the digest, and the name with or without a star.
        wanted=$(awk -v name="the-loop-$target.tar.gz" \
            '$2 == name || $2 == "*" name { print $1; exit }' "$tmp/SHA256SUMS")
        if [ -n "$wanted" ]; then
            name=the-loop-$target.tar.gz
            break
        fi
    done
    [ -n "$name" ] || fail "the release has no binary for this host" "$targets" \
        "Build it in a checkout: cargo build --release --locked"
    fetch "$name" "$tmp/$name"
    got=$(digest "$tmp/$name")
    [ "$got" = "$wanted" ] || fail "$name is not that of the release" \
        "its digest: $got" "SHA256SUMS: $wanted" \
        "Nothing was installed. Download it again."
    has tar || fail "there is no tar to unpack $name" "Install the package tar."
    # Only this member, whatever else is in there.
    tar -xzf "$tmp/$name" -C "$tmp" the-loop 2>"$tmp/why" ||
        fail "$name cannot be unpacked" \
            "$(head -n 1 "$tmp/why")" "tar and gzip are needed for it."
    if [ -L "$tmp/the-loop" ] || ! [ -f "$tmp/the-loop" ]; then
        fail "$name holds no plain file the-loop" "Nothing was installed."
    fi
}

# Makes $tmp/the-loop out of the checkout that this script lies in.
build() {
    root=$(CDPATH='' cd "$(dirname "$0")/.." 2>/dev/null && pwd) || root=
    grep -q '^name = "the-loop"' "$root/Cargo.toml" 2>/dev/null || fail \
        "THE_LOOP_RELEASES is not set, and this is no checkout to build from" \
        "Set it to the directory or the URL that holds the files of a release."
    has cargo || fail "there is no cargo to build the-loop with" \
        "Install Rust (https://rustup.rs), or set THE_LOOP_RELEASES to the directory" \
        "or the URL that holds the files of a release."
    say "Building the-loop with cargo; this takes some minutes."
    target_dir=${CARGO_TARGET_DIR:-$root/target}
    (cd "$root" && CARGO_TARGET_DIR=$target_dir cargo build --release --locked --bin the-loop) ||
        fail "cargo could not build it" "What it said stands above."
    cp "$target_dir/release/the-loop" "$tmp/the-loop"
}

prepare_directory() {
    if [ -z "$to" ]; then
        [ -n "${XDG_BIN_HOME:-}${HOME:-}" ] || fail "HOME is not set" "Say where to: --to DIR"
        to=${XDG_BIN_HOME:-$HOME/.local/bin}
    fi
    case $to in
        /*) ;;
        *) to=$(pwd)/$to ;;
    esac
    mkdir -p "$to" 2>"$tmp/why" ||
        fail "$to cannot be made" "$(head -n 1 "$tmp/why")" "Say another place: --to DIR"
    # Also as root, who may write where nothing can be written.
    (: >"$to/.the-loop.$$") 2>/dev/null ||
        fail "$to cannot be written" "Say another place: --to DIR"
    rm -f "$to/.the-loop.$$"
}

activate() {
    new=$to/.the-loop.$$
    trap 'rm -rf "$tmp" "$new"' EXIT
    # A move would go into it.
    [ ! -d "$to/the-loop" ] || fail "$to/the-loop is a directory" "Move it away first."
    cp "$tmp/the-loop" "$new" 2>"$tmp/why" ||
        fail "$to cannot take it" "$(head -n 1 "$tmp/why")" "Say another place: --to DIR"
    chmod 755 "$new"
    # Run before it takes the place of one that works.
    version=$("$new" --version 2>"$tmp/why") || fail "the binary does not run in $to" \
        "$(head -n 1 "$tmp/why")" \
        "Where programs may not run (noexec), say another place: --to DIR"
    mv -f "$new" "$to/the-loop" 2>"$tmp/why" ||
        fail "$to/the-loop cannot be replaced" "$(head -n 1 "$tmp/why")"
    say "$version is in $to."
    case :${PATH:-}: in
        *:"$to":*) ;;
        *) say "It is not on your PATH yet: export PATH=\"$to:\$PATH\"" ;;
    esac
}

main() {
    to='' tmp='' releases=${THE_LOOP_RELEASES:-}
    while [ $# -gt 0 ]; do
        case $1 in
            --to)
                [ $# -ge 2 ] || usage 2
                to=$2
                shift
                ;;
            --to=*) to=${1#--to=} ;;
            -h | --help) usage 0 ;;
            *)
                say "install.sh: what is $1?"
                usage 2
                ;;
        esac
        shift
    done
    releases=${releases%/}
    detect
    has mktemp || fail "there is no mktemp to make a temporary directory with" \
        "Install the package coreutils."
    tmp=$(mktemp -d 2>/dev/null) || fail "no temporary directory can be made" \
        "Set TMPDIR to a directory that can be written."
    trap 'rm -rf "$tmp"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    prepare_directory
    if [ -n "$releases" ]; then take_release; else build; fi
    activate
    say ""
    # Its findings are about the host: the installation itself went well.
    "$to/the-loop" doctor || say "the-loop is installed; the doctor says what it still needs."
}

# Last, so that half a script does nothing.
main "$@"
