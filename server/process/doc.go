// Package process runs programs for tools and ends everything that they start.
//
//	func main() {
//		guard := process.Main() // must be the first call in main
//		…
//		var out process.Output
//		exit, err := guard.Run(ctx, &process.Command{Path: "make", Args: []string{"test"}, Stdout: &out, Stderr: &out})
//
// # Concepts
//
// A [Command] describes what to run. A [Guard] starts it and returns a [Process], or runs
// it to its end ([Guard.Run], [Guard.Output]). An [Output] keeps the last bytes that a
// command has written. [Jobs] manage commands that run in the background. [Command].Secrets are
// environment variables that the output must not contain.
//
// # What ends with a command
//
//  1. Linux: every descendant, including background children, daemons with sessions of
//     their own and orphans. Each command runs below a second instance of this program, the
//     guard process, which adopts orphans (PR_SET_CHILD_SUBREAPER). The guard process ends
//     all descendants when the command ends, when the command is stopped, and when this
//     program dies, however it dies.
//  2. Other Unix systems: the process group of the command. A process that leaves the group
//     escapes.
//  3. Windows: the one process, which is killed without a grace period. Its children run on.
//
// The guard contains careless programs, not hostile ones: a program of the same user may
// kill the guard process. Use a container against hostile programs.
//
// All methods may be called concurrently.
package process
