// Package skills serves a folder of Agent Skills to MCP clients (SEP-2640, from version 2026-07-28
// on).
//
//	root, err := os.OpenRoot("skills")
//	...
//	folder, err := skills.Directory(root, nil)
//	...
//	err = s.Mount(folder, nil)
//
// A skill is a folder with a file SKILL.md: instructions for a model, with a name and a description
// in YAML at the beginning. Other files of the folder belong to the skill too. The name is the name
// of the folder, which may be in other folders:
//
//	skills/git-workflow/SKILL.md               skill://git-workflow/SKILL.md
//	skills/acme/billing/refunds/SKILL.md       skill://acme/billing/refunds/SKILL.md
//	skills/acme/billing/refunds/email.md       skill://acme/billing/refunds/email.md
//
// [Directory] and [FS] return a [Folder], which is a [server.Provider] of the skills, and of a
// resource for each file. Guards, scopes and metadata are in [server.MountOptions]. For a skill with
// generated content, use [server.NewSkill].
//
// # What is served
//
//  1. Only regular files below a folder with a SKILL.md are served. Symbolic links, names that begin
//     with a dot, and names that another system reads differently do not exist.
//  2. skills/list has the digest and the size of each file, as of the last scan. A client refuses
//     a file that has changed since then, until it has read the new entry.
//  3. A folder is scanned when it is opened, in an interval while it is mounted, and by
//     [Folder.Reload]. Clients are notified once of all changes to the list, and of each changed file
//     that they have subscribed to.
//  4. A scan takes all or nothing. An invalid skill is an error of [Directory], [FS] and Reload. While
//     the server runs, the last valid state stays, and the error is logged.
//
// # Limits
//
// A skill has at most [mcp.MaxSkillResources] files with at most [mcp.MaxSkillBytes] together, those
// of nested skills included: every client accepts that. A folder has at most 1000
// skills, unless the options say otherwise, and at most 100,000 files and folders, 64 levels deep.
//
// # Concurrency
//
// A Folder is safe for concurrent use. It uses the root or file system as long as it is mounted;
// close a root only after that.
package skills
