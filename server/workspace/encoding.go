package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

// A codec reads and writes texts in one encoding.
type codec struct {
	name string
	// of returns the encoding of a file with these bytes, and how many of them are a byte order mark.
	of func(data []byte) (encoding.Encoding, int)
	// mark is the byte order mark of a new file.
	mark []byte
}

// The byte order marks.
const (
	markUTF8   = "\xef\xbb\xbf"
	markLittle = "\xff\xfe"
	markBig    = "\xfe\xff"
)

// errEncoding reports an encoding that is not known.
var errEncoding = errors.New("is no encoding that is known: expected one such as utf-8, utf-8-sig, utf-16, utf-16-le, latin-1, cp1252, shift_jis, euc-jp, gb18030, big5, euc-kr or koi8-r")

// codecOf returns the codec with a name: one of the IANA registry, or of Python. It is nil for UTF-8, of which nothing is
// converted.
func codecOf(name string) (*codec, error) {
	key := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	fixed := func(e encoding.Encoding) *codec {
		return &codec{name: name, of: func([]byte) (encoding.Encoding, int) { return e, 0 }}
	}
	little, big := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	switch key {
	case "", "utf-8", "utf8":
		return nil, nil
	case "utf-8-sig":
		return &codec{name: name, mark: []byte(markUTF8), of: func(data []byte) (encoding.Encoding, int) {
			if bytes.HasPrefix(data, []byte(markUTF8)) {
				return unicode.UTF8, len(markUTF8)
			}
			return unicode.UTF8, 0
		}}, nil
	case "utf-16", "utf16":
		return &codec{name: name, mark: []byte(markLittle), of: func(data []byte) (encoding.Encoding, int) {
			switch {
			case bytes.HasPrefix(data, []byte(markBig)):
				return big, len(markBig)
			case bytes.HasPrefix(data, []byte(markLittle)):
				return little, len(markLittle)
			}
			return little, 0
		}}, nil
	case "utf-16-le", "utf-16le":
		return fixed(little), nil
	case "utf-16-be", "utf-16be":
		return fixed(big), nil
	}
	names := []string{aliases[key], name, key}
	for python, iana := range map[string]string{"latin-": "latin", "iso8859-": "iso-8859-", "cp": "windows-"} {
		if rest, ok := strings.CutPrefix(key, python); ok {
			names = append(names, iana+rest)
		}
	}
	for _, iana := range names {
		if found, err := ianaindex.IANA.Encoding(iana); iana != "" && err == nil && found != nil {
			return fixed(found), nil
		}
	}
	return nil, fmt.Errorf("%.40q %w", name, errEncoding)
}

// aliases are names of Python that the IANA registry does not have.
var aliases = map[string]string{
	"ascii": "us-ascii", "sjis": "shift_jis", "shiftjis": "shift_jis", "cp932": "shift_jis", "eucjp": "euc-jp", "euckr": "euc-kr", "cp949": "euc-kr", "cp936": "gbk", "gb2312": "gbk",
	"cp950": "big5", "mac-roman": "macintosh", "iso2022-jp": "iso-2022-jp",
}

// decode returns the text of a file without its byte order mark. With keep, the text has the same bytes again when it is
// encoded, so that an edit changes nothing else.
func (c *codec) decode(path string, data []byte, keep bool) (string, error) {
	e, mark := c.of(data)
	text, err := e.NewDecoder().Bytes(data[mark:])
	valid := err == nil && isText(text)
	if valid && (keep || bytes.ContainsRune(text, utf8.RuneError)) { // which stands for bytes without a meaning, too
		again, err := e.NewEncoder().Bytes(text)
		valid = err == nil && bytes.Equal(again, data[mark:])
	}
	if !valid {
		return "", &Error{path, fmt.Errorf("is not a text in the encoding %.40s", c.name)}
	}
	return string(text), nil
}

// encode returns a text as bytes of a file. old is the beginning of the content that it replaces, whose byte order mark it
// keeps, or empty.
func (c *codec) encode(path, text string, old []byte) ([]byte, error) {
	if c == nil {
		return []byte(text), nil
	}
	e, mark := c.of(old)
	data, err := e.NewEncoder().Bytes([]byte(text))
	switch {
	case err != nil:
		return nil, &Error{path, fmt.Errorf("cannot have this text in the encoding %.40s: it has no character %s", c.name, firstMissing(e, text))}
	case len(old) == 0:
		return append(bytes.Clone(c.mark), data...), nil
	}
	return append(bytes.Clone(old[:mark]), data...), nil
}

// firstMissing returns the first character that an encoding does not have, quoted.
func firstMissing(e encoding.Encoding, text string) string {
	for _, r := range text {
		if _, err := e.NewEncoder().String(string(r)); err != nil {
			return fmt.Sprintf("%q", r)
		}
	}
	return "of it"
}
