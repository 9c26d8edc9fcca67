# Completes command lines of dovetail in fish.
function __dovetail_words
	set -l found (dovetail completion words (commandline -cp) 2>/dev/null)
	if test (count $found) -gt 0
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c dovetail -f -a '(__dovetail_words)'
