// Package bench holds the gateway against stock reverse_proxy: both in one
// process, in front of the same upstream, taking turns, so that what else the
// machine does hits both alike. Figures are ratios.
package bench
