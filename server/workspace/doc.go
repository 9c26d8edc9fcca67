// Package workspace gives tools read and write access to the files of one directory.
//
//	w, err := workspace.Open("project", &workspace.Options{Protected: []string{".git"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer w.Close()
//	entries, err := workspace.Tools(w) // read_file, write_file, edit_file, search_content …
//	if err != nil {
//		log.Fatal(err)
//	}
//	err = s.Replace(entries...)
//
// [Tools] returns tools for a model. The methods of a [Workspace] are for tools of your own.
// A path is relative to the directory, or absolute and inside it. Package shell has tools that run
// programs in the directory. Package resources offers files as resources, for reading only.
//
// Guarantees:
//
//  1. Every access goes through an os.Root. Neither "..", nor a prefix that only resembles the
//     directory, nor a symbolic link leads outside, even if links are exchanged during the
//     access.
//  2. Only regular files are opened. A pipe or a device is refused without blocking.
//  3. Files are replaced atomically. A reader sees the complete old or the complete new
//     content, also after a crash.
//  4. Writes and edits of one Workspace run one after the other, so no edit is lost.
//  5. Errors are of type *[Error] and say what a model can do about them. They contain no
//     paths except those that the caller has given.
//  6. All methods may be called concurrently.
package workspace
