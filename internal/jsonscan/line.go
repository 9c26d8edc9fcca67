package jsonscan

import "bytes"

// AppendLine appends a JSON text as one line: line breaks between its tokens
// become spaces, all else stays. In a valid text no line break stands anywhere
// else; whether the text is valid is not checked.
func AppendLine(dst, value []byte) []byte {
	start := len(dst)
	dst = append(dst, value...)
	for _, lineBreak := range []byte{'\n', '\r'} {
		line := dst[start:]
		for {
			i := bytes.IndexByte(line, lineBreak)
			if i < 0 {
				break
			}
			line[i] = ' '
			line = line[i+1:]
		}
	}
	return dst
}

// Line is a JSON text as one line: the text itself, if it is.
func Line(value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return value
	}
	return AppendLine(nil, value)
}
