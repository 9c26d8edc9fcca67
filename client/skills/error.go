package skills

import "fmt"

// The checks, in their order.
const (
	// checkListed checks that the entry of the skill lists the file.
	checkListed = "listed"
	// checkContents: the server has answered with one content.
	checkContents = "contents"
	// checkSize: the content has the size that the entry says, in bytes.
	checkSize = "size"
	// checkDigest: the content has the SHA-256 that the entry says.
	checkDigest = "digest"
	// checkFrontmatter compares the front matter of SKILL.md with the front matter of the entry.
	checkFrontmatter = "front matter"
)

// A VerifyError says that a file is not what the entry of its skill says. Its content must not be
// used. The skill may have changed since the entry was read: get the entry again, and ask the user
// again.
type VerifyError struct {
	// Skill is the URI of the skill.
	Skill string
	// File is the URI of the file, or the name that was asked for.
	File string
	// Check is the check that has failed: "listed" (the entry of the skill lists the file), "contents" (the server
	// has answered with one content), "size", "digest" or "front matter" (those that the entry says).
	Check string
	// Field is the field of the front matter that differs, or "".
	Field string
	// Want is what the entry says, and Got is what came. Values of the front matter are JSON of at
	// most 256 bytes.
	Want, Got string
}

// Error names the file, the check, and both values.
func (e *VerifyError) Error() string {
	what := e.Check
	if e.Field != "" {
		what += fmt.Sprintf(" field %.80q", e.Field)
	}
	return fmt.Sprintf("the skill %.256q: the file %.256q: %s: expected %s, got %s", e.Skill, e.File, what, e.Want, e.Got)
}
