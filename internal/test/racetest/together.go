package racetest

import "sync"

// Together calls each function in a goroutine of its own, rounds times, with the number of the round,
// and returns when all have ended.
//
// The goroutines are not synchronized with each other except by what the functions do. A function
// that always takes the same lock, and nothing else, is therefore reported by the race detector when
// it does not take that lock, whatever the order of goroutines. A function that also uses a channel,
// an atomic value or another lock may hide this. So a stress test of a lock has one function for each
// method, with results in variables of that function, and checks them at the end.
func Together(rounds int, functions ...func(round int)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(func() {
			<-begin
			for round := range rounds {
				f(round)
			}
		})
	}
	close(begin)
	all.Wait()
}
