// SPDX-License-Identifier: Apache-2.0
//
// Text of others on this terminal: what a terminal would act on is shown as a blank, so that a
// message can neither move the cursor nor write what looks like another line. Pure.

extension String {
    /// The same text, one blank for each control character.
    var withoutControls: String {
        var scalars = String.UnicodeScalarView()
        for scalar in unicodeScalars {
            let isControl = scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
            scalars.append(isControl ? " " : scalar)
        }
        return String(scalars)
    }
}
