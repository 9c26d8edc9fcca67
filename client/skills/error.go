package skills

import "fmt"

// A Check is one of the checks of a file.
type Check string

// The checks, in their order.
const (
	// CheckListed checks that the entry of the skill lists the file.
	CheckListed Check = "listed"
	// CheckContents: the server has answered with one content.
	CheckContents Check = "contents"
	// CheckSize: the content has the size that the entry says, in bytes.
	CheckSize Check = "size"
	// CheckDigest: the content has the SHA-256 that the entry says.
	CheckDigest Check = "digest"
	// CheckFrontmatter compares the front matter of SKILL.md with the front matter of the entry.
	CheckFrontmatter Check = "front matter"
)

// A VerifyError says that a file is not what the entry of its skill says. Its content must not be
// used. The skill may have changed since the entry was read: get the entry again, and ask the user
// again.
type VerifyError struct {
	// Skill is the URI of the skill.
	Skill string
	// File is the URI of the file, or the name that was asked for.
	File string
	// Check is the check that has failed.
	Check Check
	// Field is the field of the front matter that differs, or "".
	Field string
	// Want is what the entry says, and Got is what came. Values of the front matter are JSON of at
	// most 256 bytes.
	Want, Got string
}

// Error names the file, the check, and both values.
func (e *VerifyError) Error() string {
	what := string(e.Check)
	if e.Field != "" {
		what += fmt.Sprintf(" field %.80q", e.Field)
	}
	return fmt.Sprintf("the skill %.256q: the file %.256q: %s: expected %s, got %s", e.Skill, e.File, what, e.Want, e.Got)
}
