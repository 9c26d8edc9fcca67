#compdef dovetail
# Completes command lines of dovetail in zsh.
_dovetail() {
	local word about
	local -a found open
	while IFS=$'\t' read -r word about; do
		if [[ $word == *= ]]; then
			open+=("${word//:/\\:}:$about")
		else
			found+=("${word//:/\\:}:$about")
		fi
	done < <(_call_program words dovetail completion words '"${(j: :)words[1,CURRENT-1]} $PREFIX"')
	if ((${#found} + ${#open} == 0)); then
		_files
		return
	fi
	_describe -t words dovetail found -- open -S ''
}
if [[ ${funcstack[1]} == _dovetail ]]; then
	_dovetail
else
	compdef _dovetail dovetail
fi
