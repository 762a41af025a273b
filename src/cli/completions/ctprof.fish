# Completions of ctprof for fish, which ask ctprof itself.
function __ctprof_complete
    command -q ctprof; or return
    set -l typed (commandline -ct | string replace -ra '["\'\\\\]' '')
    CTPROF_COMPLETE=(count (commandline -opc)) command ctprof -- (commandline -opc) "$typed" 2>/dev/null
end
complete --keep-order --no-files --command ctprof --arguments '(__ctprof_complete)'
