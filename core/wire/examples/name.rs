//! Names the protocol of a datagram that is given in hexadecimal digits: WireGuard, STUN or neither. README.md shows the output.

use std::error::Error;
use std::process::ExitCode;

use taut_wire::stun::{self, BindingRequest};
use taut_wire::wireguard::{self, Message};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let datagram = if words.is_empty() { Ok(sample()) } else { bytes(&words.concat()) };
    match datagram {
        Ok(datagram) => {
            println!("{}", name(&datagram));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("name: {error}\nusage: name [HEXADECIMAL-DIGITS]");
            ExitCode::from(2)
        }
    }
}

fn name(datagram: &[u8]) -> String {
    if stun::is_stun(datagram) {
        return match BindingRequest::parse(datagram) {
            Ok(request) => format!("STUN request, transaction {:02x?}", request.transaction),
            Err(error) => format!("STUN, but no request: {error}"),
        };
    }
    match wireguard::classify(datagram) {
        Ok(Message::Data(data)) => {
            format!("WireGuard data for session {:#010x}, packet {}", data.receiver, data.counter)
        }
        Ok(Message::Initiation(_)) => String::from("WireGuard initiation"),
        Ok(Message::Response(_)) => String::from("WireGuard response"),
        Ok(Message::CookieReply(_)) => String::from("WireGuard cookie reply"),
        Err(error) => format!("neither STUN nor WireGuard: {error}"),
    }
}

/// A keepalive: the header of a data message, and a tag of zeros.
fn sample() -> Vec<u8> {
    let mut header = [0; wireguard::DATA_HEADER];
    wireguard::write_data_header(&mut header, 0x1234_5678, 42);
    [header.as_slice(), &[0; wireguard::TAG]].concat()
}

fn bytes(digits: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let pair = |at| digits.get(at..at + 2).ok_or("the number of digits is odd");
    (0..digits.len()).step_by(2).map(|at| Ok(u8::from_str_radix(pair(at)?, 16)?)).collect()
}
