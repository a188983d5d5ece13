// SPDX-License-Identifier: Apache-2.0
//
// Foreign text on this terminal. A blank takes the place of each control character, so that a message can neither
// move the cursor nor imitate another line. Pure.

extension String {
    /// The text with a blank in the place of each control character.
    var withoutControls: String {
        var scalars = String.UnicodeScalarView()
        for scalar in unicodeScalars {
            let isControl = scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
            scalars.append(isControl ? " " : scalar)
        }
        return String(scalars)
    }
}
