//===- SingleTables.h - coefficients of special functions in f32 *- C++ -*-===//
//
// Numbers published in the Cephes Mathematical Library (S. Moshier,
// netlib.org/cephes), rounded to f32, in the order of evaluation: the highest
// power, or the last term of a series, first.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_SINGLETABLES_H
#define BUDDY_RUNTIME_MATH_SINGLETABLES_H

namespace buddy::tables {

/// Chebyshev series, of exp(-x) I(x) for x up to 8 and of exp(-x) sqrt(x) I(x)
/// beyond; of K(x) with its logarithm taken away, up to 2, and of
/// exp(x) sqrt(x) K(x) beyond (Cephes' i0.c, i1.c, k0.c, k1.c).
inline constexpr float kI0Small[] = {
    -4.4153416e-18f, 3.3307946e-17f, -2.43128e-16f,  1.7153913e-15f,
    -1.1685333e-14f, 7.676185e-14f,  -4.856447e-13f, 2.9550527e-12f,
    -1.7268263e-11f, 9.675809e-11f,  -5.189796e-10f, 2.6598237e-9f,
    -1.300025e-8f,   6.046995e-8f,   -2.6707937e-7f, 1.1173876e-6f,
    -4.416738e-6f,   1.6448448e-5f,  -5.754195e-5f,  0.00018850289f,
    -0.0005763756f,  0.0016394756f,  -0.00432431f,   0.010546461f,
    -0.023737416f,   0.049305283f,   -0.0949011f,    0.1716209f,
    -0.30468267f,    0.6767953f};
inline constexpr float kI0Large[] = {
    -7.233181e-18f, -4.8305044e-18f, 4.4656216e-17f,  3.4612228e-17f,
    -2.827624e-16f, -3.4254857e-16f, 1.7725601e-15f,  3.811681e-15f,
    -9.554847e-15f, -4.1505692e-14f, 1.5400861e-14f,  3.8527783e-13f,
    7.1801246e-13f, -1.7941785e-12f, -1.3215812e-11f, -3.1499164e-11f,
    1.1889147e-11f, 4.9406024e-10f,  3.396232e-9f,    2.266669e-8f,
    2.0489186e-7f,  2.8913705e-6f,   6.8897585e-5f,   0.0033691165f,
    0.8044904f};
inline constexpr float kI1Small[] = {
    2.777914e-18f,  -2.1114212e-17f, 1.553632e-16f,  -1.105597e-15f,
    7.600684e-15f,  -5.0421855e-14f, 3.2237933e-13f, -1.9839744e-12f,
    1.1736187e-11f, -6.66349e-11f,   3.6255904e-10f, -1.8872497e-9f,
    9.381537e-9f,   -4.445059e-8f,   2.0032948e-7f,  -8.56872e-7f,
    3.4702514e-6f,  -1.3273164e-5f,  4.781565e-5f,   -0.00016176082f,
    0.000512286f,   -0.0015135724f,  0.004156423f,   -0.010564085f,
    0.024726449f,   -0.052945983f,   0.10264366f,    -0.17641652f,
    0.2525872f};
inline constexpr float kI1Large[] = {
    7.517297e-18f,   4.414348e-18f,   -4.6503055e-17f, -3.209526e-17f,
    2.962629e-16f,   3.3082023e-16f,  -1.8803547e-15f, -3.8144032e-15f,
    1.0420277e-14f,  4.27244e-14f,    -2.1015418e-14f, -4.083551e-13f,
    -7.1985517e-13f, 2.0356286e-12f,  1.4125807e-11f,  3.2526037e-11f,
    -1.8974959e-11f, -5.5897437e-10f, -3.8353805e-9f,  -2.6314689e-8f,
    -2.512236e-7f,   -3.8825647e-6f,  -0.00011058894f, -0.009761098f,
    0.77857625f};
inline constexpr float kK0Small[] = {
    1.3744654e-16f, 4.259816e-14f, 1.0349695e-11f, 1.9045163e-9f, 2.534791e-7f,
    2.2862121e-5f,  0.0012646155f, 0.035979938f,   0.3442899f,    -0.5353274f};
inline constexpr float kK0Large[] = {
    5.3004336e-18f, -1.6475805e-17f, 5.2103915e-17f, -1.6782311e-16f,
    5.512056e-16f,  -1.8485933e-15f, 6.3400763e-15f, -2.2275134e-14f,
    8.0328905e-14f, -2.980097e-13f,  1.1403405e-12f, -4.514598e-12f,
    1.855949e-11f,  -7.9574895e-11f, 3.5773973e-10f, -1.6975346e-9f,
    8.574034e-9f,   -4.66049e-8f,    2.7668136e-7f,  -1.8317555e-6f,
    1.3949813e-5f,  -0.00012849549f, 0.0015698839f,  -0.0314481f,
    2.440303f};
inline constexpr float kK1Small[] = {
    -7.0238636e-18f, -2.4274499e-15f, -6.666902e-13f, -1.4114884e-10f,
    -2.2133877e-8f,  -2.433406e-6f,   -0.0001730289f, -0.006975724f,
    -0.12261118f,    -0.35315597f,    1.5253003f};
inline constexpr float kK1Large[] = {
    -5.7567444e-18f, 1.7940509e-17f, -5.689463e-17f,  1.8380935e-16f,
    -6.0570474e-16f, 2.038703e-15f,  -7.0198372e-15f, 2.4771545e-14f,
    -8.9767054e-14f, 3.3484196e-13f, -1.289174e-12f,  5.1396396e-12f,
    -2.1299679e-11f, 9.218315e-11f,  -4.1903547e-10f, 2.0150497e-9f,
    -1.03457625e-8f, 5.741084e-8f,   -3.5019605e-7f,  2.406485e-6f,
    -1.936198e-5f,   0.00019521551f, -0.0028578169f,  0.10392374f,
    2.720626f};

/// Quotients of polynomials in x^2 for J and Y up to 5; beyond it in 25 / x^2
/// those for the amplitudes P and Q of cosine and sine (Cephes' j0.c, j1.c).
inline constexpr float kJ0PNumerator[] = {
    0.00079693674f, 0.08283524f, 1.2395337f, 5.44725f,
    8.747165f,      5.3032403f,  1.0f};
inline constexpr float kJ0PDenominator[] = {
    0.0009244088f, 0.085628845f, 1.2535274f, 5.4709773f,
    8.761909f,     5.3060527f,   1.0f};
inline constexpr float kJ0QNumerator[] = {
    -0.011366384f, -1.2825272f, -19.553955f, -93.20602f,
    -177.68117f,   -147.0775f,  -51.410534f, -6.0501437f};
inline constexpr float kJ0QDenominator[] = {64.317825f, 856.43005f, 3882.4019f,
                                            7240.468f,  5930.727f,  2062.0933f,
                                            242.00574f};
inline constexpr float kJ0Numerator[] = {-4.794432e9f, 1.9561749e12f,
                                         -2.4924834e14f, 9.708622e15f};
inline constexpr float kJ0Denominator[] = {
    499.56314f,    173785.4f,    48440964.0f,   1.1185553e10f,
    2.1127753e12f, 3.105182e14f, 3.1812196e16f, 1.7108629e18f};
inline constexpr float kJ1PNumerator[] = {
    0.0007621256f, 0.073139705f, 1.1271961f, 5.1120796f,
    8.424046f,     5.214516f,    1.0f};
inline constexpr float kJ1PDenominator[] = {
    0.00057132315f, 0.06884559f, 1.1051424f, 5.073864f,
    8.399856f,      5.2098284f,  1.0f};
inline constexpr float kJ1QNumerator[] = {0.05108626f, 4.9821386f, 75.82383f,
                                          366.7796f,   710.8563f,  597.4896f,
                                          211.68875f,  25.20702f};
inline constexpr float kJ1QDenominator[] = {74.23733f, 1056.4489f, 4986.4106f,
                                            9562.319f, 7997.0415f, 2826.1929f,
                                            336.0936f};
inline constexpr float kJ1Numerator[] = {-8.999712e8f, 4.522283e11f,
                                         -7.274942e13f, 3.6829573e15f};
inline constexpr float kJ1Denominator[] = {
    620.8365f,    256987.25f,   8.351468e7f,  2.215116e10f,
    4.749141e12f, 7.843696e14f, 8.952224e16f, 5.3227864e18f};
inline constexpr float kY0Numerator[] = {
    15592.437f,   -1.466393e7f,   5.435265e9f,   -9.8213606e11f,
    8.759064e13f, -3.4662832e15f, 4.4273326e16f, -1.849508e16f};
inline constexpr float kY0Denominator[] = {
    1041.2836f,   626107.3f,     2.6891965e8f, 8.6400246e10f,
    2.029796e13f, 3.1715775e15f, 2.5059626e17f};
inline constexpr float kY1Numerator[] = {1.2632047e9f,   -6.473559e11f,
                                         1.14509516e14f, -8.1277027e15f,
                                         2.0243947e17f,  -7.788772e17f};
inline constexpr float kY1Denominator[] = {
    594.3016f,     235564.1f,     7.348119e7f,  1.8760133e10f,
    3.8823128e12f, 6.2055775e14f, 6.871411e16f, 3.9727062e18f};

/// Quotients of polynomials for Ai beyond 2.09 and, of F and G, below -2.09
/// (Cephes' airy.c).
inline constexpr float kAiryLargeNumerator[] = {
    0.3465381f, 12.007595f, 76.2796f,   168.08922f,
    159.7564f,  70.53609f,  14.026469f, 1.0f};
inline constexpr float kAiryLargeDenominator[] = {
    0.5675945f, 14.756256f, 84.5139f,   177.31808f,
    164.2347f,  71.47784f,  14.095914f, 1.0f};
inline constexpr float kAiryFNumerator[] = {
    -0.13169633f,  -0.62645656f,    -0.69315803f,  -0.27977997f, -0.049190015f,
    -0.004062659f, -0.00015927649f, -2.776491e-6f, -1.677877e-8f};
inline constexpr float kAiryFDenominator[] = {
    13.356042f,  32.682503f,    26.736704f,   9.187074f,   1.4752915f,
    0.11568718f, 0.0044029164f, 7.547203e-5f, 4.518501e-7f};
inline constexpr float kAiryGNumerator[] = {
    0.019733993f,  0.39110303f,   1.065799f,     0.9391692f,
    0.35146564f,   0.06338889f,   0.0058580413f, 0.0002828516f,
    6.9879366e-6f, 8.1178925e-8f, 3.415518e-10f};
inline constexpr float kAiryGDenominator[] = {
    9.308929f,   19.835293f,   15.564663f,     5.4768605f,    0.9542936f,
    0.08645808f, 0.004126565f, 0.00010125909f, 1.1716673e-6f, 4.9183457e-9f};

/// Quotients of polynomials for the inverse normal distribution: near 1/2, and
/// in the tails for sqrt(-2 log p) up to 8 and beyond (Cephes' ndtri.c).
inline constexpr float kNdtriCentralNumerator[] = {
    -59.96335f, 98.001076f, -56.676285f, 13.931261f, -1.2391658f};
inline constexpr float kNdtriCentralDenominator[] = {
    1.0f,       1.9544886f,  4.676279f,   86.360245f, -225.46269f,
    200.26021f, -82.037224f, 15.9056225f, -1.1833162f};
inline constexpr float kNdtriTailNumerator[] = {
    4.055449f, 31.52511f,    57.16282f,    44.08051f,      14.684957f,
    2.186633f, -0.14025608f, -0.03504246f, -0.00085745676f};
inline constexpr float kNdtriTailDenominator[] = {
    1.0f,       15.779988f,   45.390762f,   41.317204f,    15.042539f,
    2.5046494f, -0.14218292f, -0.03808064f, -0.0009332595f};
inline constexpr float kNdtriFarNumerator[] = {
    3.2377489f,   6.915229f,      3.9388103f,    1.3330346f,   0.2014854f,
    0.012371664f, 0.00030158155f, 2.6580697e-6f, 6.2397456e-9f};
inline constexpr float kNdtriFarDenominator[] = {
    1.0f,       6.0242705f,     3.6798356f,    1.377021f,   0.216237f,
    0.0134204f, 0.00032801446f, 2.8924787e-6f, 6.790194e-9f};

/// Bernoulli numbers B2k / 2k, from k = 7 down to 1 (Cephes' psi.c).
inline constexpr float kDigamma[] = {
    0.083333336f, -0.021092797f, 0.007575758f, -0.004166667f,
    0.003968254f, -0.008333334f, 0.083333336f};

} // namespace buddy::tables

#endif
