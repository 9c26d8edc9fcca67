# Completes command lines of dovetail in bash.
_dovetail() {
	local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^=:]/} word kept= quote=${COMP_WORDS[COMP_CWORD]:0:1}
	if [[ $breaks ]]; then # readline completes what follows these
		kept=${line##*[[:space:]]}
		kept=${kept%"${kept##*["$breaks"]}"}
	fi
	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		[[ $word != *= ]] || compopt -o nospace
		case $quote in # a server chooses the names of its tools
		\') [[ $word != *\'* ]] || continue ;;
		\") [[ $word != *[\"\$\`\\]* ]] || continue ;;
		*) printf -v word %q "$word" ;;
		esac
		COMPREPLY+=("${word#"$kept"}")
	done < <("${COMP_WORDS[0]/#\~/$HOME}" completion words "$line" 2>/dev/null)
}
complete -o default -F _dovetail dovetail
