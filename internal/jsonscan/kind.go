package jsonscan

// Kind says what a value is.
type Kind byte

// The kinds of values. EOF is the end of the text, Invalid a byte that no value
// begins with.
const (
	Invalid Kind = iota
	EOF
	Null
	Bool
	Number
	String
	Object
	Array
)

// String names the kind in words, as error messages need it.
func (k Kind) String() string {
	switch k {
	case EOF:
		return "the end of the text"
	case Null:
		return "null"
	case Bool:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case Object:
		return "an object"
	case Array:
		return "an array"
	}
	return "no JSON value"
}

// KindOf says what a raw value is, by the first byte that is not white space.
// It checks nothing else.
func KindOf(raw []byte) Kind { return kindAt(raw, skipSpace(raw, 0)) }

func kindAt(data []byte, pos int) Kind {
	if pos >= len(data) {
		return EOF
	}
	switch data[pos] {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}
