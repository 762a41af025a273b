#compdef ctprof
# Completions of ctprof for zsh, which ask ctprof itself.
_ctprof() {
    local line value help
    local -a whole open typed=("${(@Q)words}")
    # Without the quote that is still open.
    typed[CURRENT]=${(Q)PREFIX}
    for line in "${(@f)$(CTPROF_COMPLETE=$((CURRENT - 1)) command ctprof -- "${typed[@]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        if [[ $value == *[:/\>] ]]; then
            open+=("$value")
        elif [[ -n $value ]]; then
            help=${line#*$'\t'}
            value=${value//\\/\\\\}
            whole+=("${value//:/\\:}${help:+:$help}")
        fi
    done
    # A tilde that is completed would be quoted, and then stand for no directory.
    [[ $PREFIX == '~/'* ]] && compset -P '\~/' && open=("${open[@]#\~/}") whole=("${whole[@]#\~/}")
    (( $#open )) && compadd -S '' -- "${open[@]}"
    (( $#whole )) && _describe value whole
}
if [[ $funcstack[1] == _ctprof ]]; then
    _ctprof "$@"
else
    compdef _ctprof ctprof
fi
