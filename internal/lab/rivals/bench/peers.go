package main

// peers are all there are: those that are compared, and the limit.
//
// Each library has besides a function that adds a tool, which takes a
// T and gives it back: addDovetail, addGoSDK and addMCPGo.
func peers() []Peer {
	return []Peer{dovetail{}, goSDK{}, mcpGo{}, wire{}}
}
