// Package filetree reads files by names that come from other programs: files below an os.Root, or in
// an fs.FS, without symbolic links. It also knows the media types of files.
package filetree
