// Package process runs programs for tools, and leaves nothing of them behind.
//
// What a command starts has to end with it: children in the background, too, daemons with
// sessions of their own, and processes whose parents are gone. On Linux each command runs
// below a guard, which is this program once more. The guard adopts what its descendants
// leave behind, so all of them can be found; it ends them with the command, when it is
// told to, and when this program dies, however it does. On other Unix systems a command is
// a process group, and what leaves the group escapes. On Windows it is one process, which
// has no grace, and what it starts goes on.
//
//	func main() {
//		guard := process.Main() // before anything else
//		…
//		var out process.Output
//		exit, err := guard.Run(ctx, &process.Command{Path: "make", Args: []string{"test"}, Stdout: &out, Stderr: &out})
//
// It contains what is careless, not what is hostile: a program of the same user may kill
// the guard as it may kill this program. Against that there are containers.
//
// All methods may be called concurrently.
package process
