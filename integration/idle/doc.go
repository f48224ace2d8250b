// Package idle opens as many silent streams through the real binary as a busy
// deployment has, measures what each costs, ends them all and looks whether
// anything is left behind.
package idle
