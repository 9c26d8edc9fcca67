package sse

import "bytes"

// lineEnd returns the index of the first CR or LF, or -1. It searches windows of
// growing size, so that it takes time for this line and not for the lines after
// it: whole texts of CRs are linear too.
func lineEnd(text []byte) int {
	for from, size := 0, 64; from < len(text); from, size = from+size, 2*size {
		window := text[from:min(from+size, len(text))]
		end := bytes.IndexByte(window, '\n')
		if end >= 0 {
			window = window[:end]
		}
		if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			return from + end
		}
	}
	return -1
}
