// Package workspace gives tools the files of one directory, to read and to change, and no
// others.
//
// All access goes through an os.Root, so neither "..", nor a prefix that only looks like
// the directory, nor a symbolic link leads out of it, however it is swapped while it is
// being followed. Only regular files are opened: a pipe or a device that stands there is
// refused, without waiting for anybody. Files are replaced as a whole, so nobody reads one
// that is half written.
//
// A path is relative to the directory, or absolute and in it. Errors are *[Error]s, in
// words that a model can act on.
//
// [Tools] are tools for a model, ready to be registered; the methods of a [Workspace] are for
// those who write their own.
//
// All methods may be called concurrently.
package workspace
