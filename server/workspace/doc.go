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
// [Tools] returns tools for a model. They read and write files in UTF-8, and with the argument encoding in any encoding of
// golang.org/x/text, by its name in the IANA registry or in Python: utf-8-sig, utf-16, utf-16-le, latin-1, iso-8859-15,
// cp1252, cp437, koi8-r, shift_jis, euc-jp, iso-2022-jp, gbk, gb18030, big5, euc-kr, mac-roman and others. An edit changes
// no other bytes of the file, and a replaced file keeps its byte order mark. The methods of a [Workspace] are for tools of your own.
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
