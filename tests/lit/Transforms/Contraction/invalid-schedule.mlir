// RUN: buddy-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{schedule needs mc a multiple of mr}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 100, kc = 256, ku = 4, dot_m = 8, pack_m = 32>

// -----

// expected-error @below {{schedule needs kc a multiple of vl}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 128, kc = 100, ku = 4, dot_m = 8, pack_m = 32>

// -----

// expected-error @below {{schedule needs vl a power of two up to 1024}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 12, scalable = false, mc = 128, kc = 120, ku = 4, dot_m = 8, pack_m = 32>

// -----

// expected-error @below {{schedule needs mr, nr and ku of at least 1 and a product of at most 1024}}
#s = #buddy.schedule<mr = 0, nr = 2, vl = 16, scalable = false, mc = 128, kc = 256, ku = 4, dot_m = 8, pack_m = 32>

// -----

// expected-error @below {{elements}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 128, kc = 65536, ku = 4, dot_m = 8, pack_m = 32>

// -----

// expected-error @below {{kc a multiple of 2 * vl for pairs}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 128, kc = 272, ku = 4, dot_m = 8, pack_m = 32, pairs = true>

// -----

// expected-error @below {{schedule needs vl of 4, 8 or 16, not scalable}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = true, mc = 128, kc = 256, ku = 4, dot_m = 8, pack_m = 32, pairs = true>

// -----

// expected-error @below {{kc and mc multiples of 32 for tile_m}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 40, kc = 256, ku = 4, dot_m = 8, pack_m = 32, pairs = true, tile_m = 8>

// -----

// expected-error @below {{schedule needs vl of 16}}
#s = #buddy.schedule<mr = 8, nr = 2, vl = 8, scalable = false, mc = 64, kc = 256, ku = 4, dot_m = 8, pack_m = 32, pairs = true, tile_m = 8>
