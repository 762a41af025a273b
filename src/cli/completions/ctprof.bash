# Completions of ctprof for bash, which ask ctprof itself.
_ctprof() {
    # Bash also splits words at : = > @, and replaces only what follows: $2.
    local rest=${COMP_LINE:0:COMP_POINT} words=() word place line
    for ((place = 0; place <= COMP_CWORD; place++)); do
        word=${COMP_WORDS[place]}
        # What follows the cursor stays as it is.
        ((place < COMP_CWORD)) || word=${rest#"${rest%%[![:space:]]*}"}
        if [[ $place -eq 0 || $rest == [[:space:]]* ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
        rest=${rest#*"$word"}
    done
    local last=$((${#words[@]} - 1))
    local kept=${words[last]%"$2"} open=${words[last]}
    # What is left is a quote that is still open.
    while [[ $open =~ ^([^\\\"\']|\\.|\'[^\']*\'|\"([^\\\"]|\\.)*\") ]]; do
        open=${open:${#BASH_REMATCH}}
    done
    kept=${kept//[\\\"\']/}
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        line=${line#"$kept"}
        # Names come from files: none may be run as a command.
        case ${open:0:1} in
            '') printf -v line %q "$line" && line=${line//\\,/,} && [[ $line == \$\'* ]] && continue ;;
            \') [[ $line == *\'* ]] && continue ;;
            *) [[ $line == *[\\\$\`\"!]* ]] && continue ;;
        esac
        COMPREPLY+=("${line/#\\~\//\~/}")
    done < <(CTPROF_COMPLETE=$last command ctprof -- "${words[@]//[\\\"\']/}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/\>] ]] && compopt -o nospace
    return 0
}
complete -o bashdefault -o default -F _ctprof ctprof
