//! The program that judges system calls: classic BPF (Documentation/userspace-api/seccomp_filter.rst), which the kernel runs before each call that it cannot tell
//! to be allowed always. The verdicts are the leaves of a search tree over the numbers, so a call costs about eight steps.

use libc::sock_filter as Instruction;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is carried out.
    Allow,
    /// It fails with this error.
    Refuse(libc::c_int),
    /// It ends the process.
    Kill,
}

impl Verdict {
    /// It fails with `EPERM`, as a call without the right to it.
    pub const DENIED: Self = Self::Refuse(libc::EPERM);
}

/// A check of the lower 32 bits of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its position, from 0.
    pub argument: u8,
    /// The bits that are compared.
    pub mask: u32,
    /// The values of which it must be one, or, with `not`, none.
    pub values: Vec<u32>,
    /// Turns the comparison round.
    pub not: bool,
}

impl Check {
    /// The argument is one of these values.
    pub fn is(argument: u8, values: &[u32]) -> Self {
        Self { argument, mask: u32::MAX, values: values.to_vec(), not: false }
    }

    /// The argument is none of these values.
    pub fn is_not(argument: u8, values: &[u32]) -> Self {
        Self { argument, mask: u32::MAX, values: values.to_vec(), not: true }
    }

    /// Of these bits, the argument has one of these values.
    pub fn masked(argument: u8, mask: u32, values: &[u32]) -> Self {
        Self { argument, mask, values: values.to_vec(), not: false }
    }

    /// None of these bits is set.
    pub fn lacks(argument: u8, mask: u32) -> Self {
        Self { argument, mask, values: vec![0], not: false }
    }

    /// At least one of these bits is set.
    pub fn has(argument: u8, mask: u32) -> Self {
        Self { argument, mask, values: vec![0], not: true }
    }
}

/// What is known of a call: the verdict, or ways of arguments that are allowed. All checks of one way must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Verdict(Verdict),
    Ways(Vec<Vec<Check>>),
}

// BPF_LD | BPF_W | BPF_ABS, BPF_ALU | BPF_AND | BPF_K, BPF_JMP with BPF_JA, BPF_JEQ and BPF_JGE, BPF_RET | BPF_K.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

// Places in `struct seccomp_data`: the number, the architecture, six arguments of 64 bits.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// From an argument to its lower half.
const LOWER: u32 = if cfg!(target_endian = "big") { 4 } else { 0 };

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn end(verdict: Verdict) -> Instruction {
    let k = match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Refuse(error) => libc::SECCOMP_RET_ERRNO | error.cast_unsigned() & libc::SECCOMP_RET_DATA,
        Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    step(RETURN, 0, 0, k)
}

/// Assembles the program. `leaves` are sorted by number; a leaf holds up to the next one's number. Calls of another architecture, whose numbers mean other things,
/// end the process.
pub(crate) fn assemble(architecture: u32, leaves: &[(u32, Leaf)]) -> Vec<Instruction> {
    let mut program = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        step(JUMP_EQUAL, 1, 0, architecture),
        end(Verdict::Kill),
        step(LOAD, 0, 0, NUMBER),
    ];
    program.extend(tree(leaves));
    program
}

fn tree(leaves: &[(u32, Leaf)]) -> Vec<Instruction> {
    match leaves {
        [] => vec![end(Verdict::Kill)],
        [(_, leaf)] => judge(leaf),
        _ => {
            let (low, high) = leaves.split_at(leaves.len() / 2);
            let (below, from) = (tree(low), high.first().map_or(0, |(number, _)| *number));
            let mut both = match u8::try_from(below.len()) {
                Ok(distance) => vec![step(JUMP_AT_LEAST, distance, 0, from)],
                // The distance of a conditional jump has 8 bits.
                Err(_) => vec![step(JUMP_AT_LEAST, 0, 1, from), step(JUMP, 0, 0, below.len() as u32)],
            };
            both.extend(below);
            both.extend(tree(high));
            both
        }
    }
}

fn judge(leaf: &Leaf) -> Vec<Instruction> {
    match leaf {
        Leaf::Verdict(verdict) => vec![end(*verdict)],
        Leaf::Ways(ways) => {
            let mut all: Vec<Instruction> = ways.iter().flat_map(|checks| way(checks)).collect();
            all.push(end(Verdict::Refuse(libc::EPERM)));
            all
        }
    }
}

/// The steps of one way: they end with the permission, and go on behind it if a check does not hold.
fn way(checks: &[Check]) -> Vec<Instruction> {
    let mut steps: Vec<Instruction> = Vec::new();
    // Jumps that leave the way, and whether they do so if the comparison holds.
    let mut leaving: Vec<(usize, bool)> = Vec::new();
    for check in checks {
        steps.push(step(LOAD, 0, 0, ARGUMENTS + 8 * u32::from(check.argument) + LOWER));
        if check.mask != u32::MAX {
            steps.push(step(AND, 0, 0, check.mask));
        }
        for (place, value) in check.values.iter().enumerate() {
            let later = (check.values.len() - 1 - place) as u8;
            if check.not {
                leaving.push((steps.len(), true));
                steps.push(step(JUMP_EQUAL, 0, 0, *value));
            } else {
                if later == 0 {
                    leaving.push((steps.len(), false));
                }
                steps.push(step(JUMP_EQUAL, later, 0, *value));
            }
        }
    }
    steps.push(end(Verdict::Allow));
    let length = steps.len();
    for (at, holds) in leaving {
        // A way has a few dozen steps at most.
        let distance = (length - at - 1) as u8;
        if let Some(jump) = steps.get_mut(at) {
            *(if holds { &mut jump.jt } else { &mut jump.jf }) = distance;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCH: u32 = 0xc000_003e;

    /// Runs a program as the kernel does; returns its answer and the number of steps.
    fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
        let mut data = Vec::new();
        data.extend(number.to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend([0; 8]);
        arguments.iter().for_each(|argument| data.extend(argument.to_ne_bytes()));
        let (mut at, mut value, mut steps) = (0, 0_u32, 0);
        loop {
            let Instruction { code, jt, jf, k } = program[at];
            (at, steps) = (at + 1, steps + 1);
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            match code {
                LOAD => value = u32::from_ne_bytes(data[k as usize..k as usize + 4].try_into().unwrap()),
                AND => value &= k,
                JUMP => at += k as usize,
                JUMP_EQUAL => at += skip(value == k),
                JUMP_AT_LEAST => at += skip(value >= k),
                RETURN => return (k, steps),
                _ => panic!("{code}"),
            }
        }
    }

    fn answer(verdict: Verdict) -> u32 {
        end(verdict).k
    }

    #[test]
    fn each_number_gets_its_own_verdict_in_a_few_steps() {
        let verdicts = [Verdict::Allow, Verdict::Refuse(1), Verdict::Kill, Verdict::Refuse(38)];
        let leaves: Vec<(u32, Leaf)> =
            (0..400).map(|number| (3 * number, Leaf::Verdict(verdicts[number as usize % 4]))).collect();
        let program = assemble(ARCH, &leaves);
        assert!(program.len() < 4_096, "the kernel takes no more (BPF_MAXINSNS)");
        for number in 0..1_300_u32 {
            let (got, steps) = run(&program, ARCH, number, [0; 6]);
            let wanted = verdicts[(number / 3).min(399) as usize % 4];
            assert_eq!(got, answer(wanted), "number {number}");
            assert!(steps <= 4 + 2 * 9 + 1, "{steps} steps");
        }
        assert_eq!(run(&program, 0x4000_0003, 0, [0; 6]).0, answer(Verdict::Kill), "numbers of another architecture");
    }

    #[test]
    fn arguments_are_allowed_in_one_of_several_ways() {
        let ways = vec![
            vec![Check::is(0, &[2, 10]), Check::lacks(1, 4)],
            vec![Check::is(0, &[16]), Check::is(2, &[0, 12])],
            vec![Check::has(3, 0x10), Check::is_not(4, &[7, 9])],
        ];
        let program = assemble(ARCH, &[(0, Leaf::Verdict(Verdict::Kill)), (41, Leaf::Ways(ways))]);
        let allowed = |arguments| run(&program, ARCH, 41, arguments).0 == answer(Verdict::Allow);
        for good in [
            [2, 1, 99, 0, 7, 0],
            [10, 2, 0, 0, 7, 0],
            [16, 4, 12, 0, 7, 0],
            [16, 4, 0, 0, 7, 0],
            [1, 4, 1, 0x11, 8, 0],
            [1 << 32 | 2, 0, 0, 0, 7, 0],
        ] {
            assert!(allowed(good), "{good:?}");
        }
        for bad in [
            [1, 0, 0, 0, 0, 0],
            [2, 5, 0, 0, 0, 0],
            [16, 0, 1, 0, 0, 0],
            [1, 0, 0, 0x10, 7, 0],
            [1, 0, 0, 0x10, 9, 0],
            [1, 0, 0, 0x20, 8, 0],
        ] {
            assert_eq!(run(&program, ARCH, 41, bad).0, answer(Verdict::Refuse(libc::EPERM)), "{bad:?}");
        }
    }
}
