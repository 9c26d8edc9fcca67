// Package skills reads Agent Skills from an MCP server, and verifies what it reads (SEP-2640, from
// version 2026-07-28 on).
//
//	for entry, err := range session.Skills(ctx, nil) {
//		...
//		skill, err := skills.Open(session, entry, nil) // reads nothing
//		...
//		text, err := skill.Load(ctx)                   // SKILL.md
//		...
//		form, err := skill.Read(ctx, "references/FORMS.md")
//	}
//
// [Open] checks an entry of [client.Session.Skills]. [Get] asks for one by its URI, since a server need
// not list all skills. [Skill.Load] and [Skill.Read] read one file each, when they are called. Nothing is read
// before that.
//
// # What is verified
//
//  1. An entry follows the rules of SEP-2640: its name, its URI, and a complete list of files
//     with digests and sizes below its directory. Otherwise Open returns a *[mcp.SkillError].
//  2. A file is in that list, and its content has the size and the SHA-256 of the list.
//  3. The front matter of SKILL.md equals the front matter of the entry, field by field.
//
// If check 2 or 3 fails, the error is a *[VerifyError], and the content is not returned. The skill may have changed:
// get the entry again. The digests come from the server itself: they show that a skill is the one that a person has
// approved, not that it is harmless. [Skill.Digest] identifies the content that was approved.
//
// # What the host does
//
// A skill is text from another party. The host asks its user before it gives a skill to a
// model, says which server the skill is from, and ignores fields that would widen permissions, such as
// allowed-tools. A skill is identified by its server together with its URI; two servers may have the
// same URI, and one server two skills of the same name.
//
// # Concurrency
//
// A Skill may be used by several goroutines.
package skills
