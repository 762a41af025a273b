# Completions of ctprof for bash, which ask ctprof itself.
_ctprof() {
    # Bash also splits words at : = > @, and replaces only what follows: $2.
    local rest=$COMP_LINE words=() word place line
    for ((place = 0; place <= COMP_CWORD; place++)); do
        word=${COMP_WORDS[place]}
        if [[ $place -eq 0 || $rest == [[:space:]]* ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
        rest=${rest#*"$word"}
    done
    local last=$((${#words[@]} - 1))
    local typed=${words[last]} kept=${words[last]%"$2"} open=
    [[ $typed == [\"\']* && ${typed:1} != *"${typed:0:1}"* ]] && open=${typed:0:1}
    kept=${kept//[\\\"\']/}
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        line=${line#"$kept"}
        # Names come from files: none may be run as a command.
        case $open in
            '') printf -v line %q "$line" && line=${line//\\,/,} ;;
            \') [[ $line == *\'* ]] && continue ;;
            *) [[ $line == *[\\\$\`\"!]* ]] && continue ;;
        esac
        COMPREPLY+=("${line/#\\~\//\~/}")
    done < <(CTPROF_COMPLETE=$last command ctprof -- "${words[@]//[\\\"\']/}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/\>] ]] && compopt -o nospace
    return 0
}
complete -o bashdefault -o default -F _ctprof ctprof
