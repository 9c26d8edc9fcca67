# Completes command lines of dovetail in bash.
_dovetail() {
	local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^=:]/} word kept=
	if [[ $breaks ]]; then # readline completes what follows these
		kept=${line##*[[:space:]]}
		kept=${kept%"${kept##*["$breaks"]}"}
	fi
	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		[[ $word != *= ]] || compopt -o nospace
		printf -v word %q "$word" # a server chooses the names of its tools
		COMPREPLY+=("${word#"$kept"}")
	done < <("${COMP_WORDS[0]/#\~/$HOME}" completion words "$line" 2>/dev/null)
}
complete -o default -F _dovetail dovetail
