package process

// Listens is listens.
var Listens = listens
