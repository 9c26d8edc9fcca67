package archtest

import "testing"

const (
	// questionable is the length in lines from which a file has to say why it is
	// not two files, and excessive the one that nothing excuses.
	questionable = 500
	excessive    = 800
)

func TestFilesAreShort(t *testing.T) {
	enforce(t, longerThan(questionable), exceptions{})
	enforce(t, longerThan(excessive), nil)
}

func TestLengthRule(t *testing.T) {
	file := &source{path: "server/long.go", lines: 501}
	if len(longerThan(500)(file)) != 1 || len(longerThan(501)(file)) != 0 {
		t.Error("a file of 501 lines must be refused at 500 and allowed at 501")
	}
}

// longerThan counts tests out: a table may be as long as what it covers.
func longerThan(limit int) rule {
	return func(file *source) []finding {
		if file.isTest() || file.lines <= limit {
			return nil
		}
		return []finding{{file.path, limit + 1, "the file is too long: find the second noun in it"}}
	}
}
