// Package resources provides ready-made resources: files, directories, embedded files and
// HTTP URLs.
//
//	root, err := os.OpenRoot("docs")
//	...
//	entries, err := resources.Directory(root, &resources.DirectoryOptions{Pattern: "**"})
//	...
//	err = s.Replace(entries...)
//
// [File], [Directory], [FS] and [HTTP] return entries for a server. [Watch] notifies
// subscribers when files change.
//
// # Access
//
//  1. Each read returns the current content.
//  2. Only regular files are read, never devices, pipes, sockets or directories.
//  3. Nothing outside of the root is read, whatever the URI contains and however the directory
//     changes during the read. [Directory] does not follow symbolic links at all.
//  4. The same function decides which files are listed and which can be read.
//
// # Text and binary data
//
// The media type follows from the extension of the name, by a table of this package, or from
// the HTTP response. The content is text if its type is textual (text/*, JSON, XML, YAML, TOML,
// JavaScript and similar types) and it is valid UTF-8, and otherwise a blob. Content of unknown
// type is text/plain if it is UTF-8 without NUL, and otherwise application/octet-stream.
//
// # Errors
//
// A resource that does not exist, or is not offered, is mcp.ResourceNotFound. Errors contain
// no paths of this machine.
//
// # Concurrency
//
// All entries are safe for concurrent use. They use the root or file system that they were
// created with as long as they are registered; close a root only after that.
package resources
