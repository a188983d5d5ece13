// SPDX-License-Identifier: Apache-2.0
//
// Public keys as openssl writes them (`openssl rsa -pubout -outform DER`); nobody has the private ones.
// Rests on nothing.

import Foundation

enum PublicKeys {
    static let rsa = bytes(
        """
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAvVj7IYeHl4ifshwNGHKkO7U1lxVw3ptLomS9\
        slU84s2lp88Go4q0EktH13ghiDuepLGt0WIqoGqFpqLgRsod3etfHcvSc/MQJG4nfWixdg1b6DTOeOVy\
        /GL6/ZDao3SzQW2gTke2u+6/Vee5StHEwhbZfW3friyU3IMXOe/tRdYytKQoB16uVSVtG/rBeKL6NXLY\
        cykIVQZHHs5ZCX9BInfqDI9MawqJBbOyXrS8nh3hehqbqe9/Q4m1t3uU9Y4OnkWPWUmy8nUTcJMXdxZM\
        NwN9bhhNnFR6V/4kx9MDt1xrQ0ukOPup3E9et+znXhFn5yWlEZjtdqSr1ZpTo2A0rwIDAQAB
        """)

    static let rsaOf1024Bits = bytes(
        """
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDUWnwTMFD35o9twCG9ryfsYHF0TleOpj8z43JJOtpm\
        U2J4V5E1HPzIYRIt1BzphmXdZfPCFmx6ymUp9QfyPYHw9c2i9eTnCF9GTK7D4mN1XPHn6aBPFIvqR8v0\
        MFhd0azefxIe9a5byUp4q02DOXKhgZMzfjWNJxzP4keByLo+XwIDAQAB
        """)

    static let ellipticCurve = bytes(
        """
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhF9RJorCesrLvAP/Ymy8USyv6Xv07qC28zJK+0PQT/sx\
        tT9ajTtR1t7LRGtpNkcdML2eFGGqFBtvADYfhrMo8g==
        """)

    private static func bytes(_ base64: String) -> [UInt8] {
        Array(Data(base64Encoded: base64) ?? Data())
    }
}
