// Package task runs calls in the background, on state that the replicas of a server share.
//
// A task is a record in a [store.KV], sealed, under a random id. [Engine.Create] stores the record and
// adds a job to a [store.Queue]; a worker of any replica takes the job, runs the call and stores the
// outcome. Questions of the call end the run; [Engine.Answer] adds the next job when all are answered.
//
// Guarantees:
//
//  1. The record is stored before Create returns.
//  2. A task has one outcome. The record changes by revision, and after its end only once,
//     if the outcome of its run was unknown.
//  3. A run stores that its function begins, and then begins it; see [Run.Begin]. If the worker of a job has died,
//     the job is delivered again when its lease ends. If the function had not begun, the call begins again, with
//     the values that earlier runs have saved. Otherwise it begins again as often as its tool allows, and then the
//     task fails. The lost run may still replace that failure by its outcome.
//  4. A task exists for its principal only.
//  5. Arguments, answers and results are sealed before they reach the store. A principal cannot be read
//     in the store either.
package task
