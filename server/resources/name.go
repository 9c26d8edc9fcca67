package resources

import (
	"io/fs"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
)

// isName tells whether a path may be that of a file, on every system: relative, with
// slashes, without "." and ".." and without forms that a system takes for another
// name. What a file system allows beyond that is not offered.
func isName(name string) bool {
	if name == "." || !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || strings.Count(name, "/") >= maxDepth {
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxElement || runtime.GOOS == "windows" && isWindowsAlias(element) {
			return false
		}
	}
	_, err := filepath.Localize(name) // refuses NUL and COM1 on Windows
	return err == nil
}

// isWindowsAlias tells whether Windows may take an element for another name than it
// spells: with a stream, a wildcard, an end that is cut off, or a short name.
func isWindowsAlias(element string) bool {
	if strings.ContainsAny(element, `:*?"<>|`) || strings.HasSuffix(element, ".") || strings.HasSuffix(element, " ") {
		return true
	}
	_, after, found := strings.Cut(element, "~")
	return found && after != "" && '0' <= after[0] && after[0] <= '9'
}

// isHidden tells whether any element of a path begins with a dot.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") }

// uriOf is the URI of a file below another URI. RFC 3986, section 3.3.
func uriOf(base, name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return base + strings.Join(elements, "/")
}
