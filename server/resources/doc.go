// Package resources has resources ready-made: files, directories, embedded files and
// what is at a URL.
//
//	root, err := os.OpenRoot("docs")
//	...
//	entries, err := resources.Directory(root, &resources.DirectoryOptions{Pattern: "**"})
//	...
//	err = s.Replace(entries...)
//
// # What is read
//
// Files are read when they are asked for, as they are then. Only regular files are:
// never devices, pipes, sockets or directories. Nothing outside of the root is reached,
// whatever is in the URI and whatever happens in the directory meanwhile; [Directory]
// does not follow symbolic links at all. What is listed and what can be read is decided
// by one function.
//
// # Text and binary data
//
// The type follows from the name's extension, by a table of this package's own, or from
// what the HTTP server says. Contents are text when their type is (text/*, JSON, XML,
// YAML, TOML, JavaScript and the like) and they are valid UTF-8, else a blob. Contents of
// unknown type are text/plain when they are UTF-8 without NUL, else
// application/octet-stream.
//
// # Errors
//
// What does not exist, or is not offered, is mcp.ResourceNotFound. Errors name no path
// of this machine.
//
// # Concurrency
//
// All entries are safe for concurrent use. They use the root, file system or options
// that they were made with as long as they are registered: close a root after that.
package resources
