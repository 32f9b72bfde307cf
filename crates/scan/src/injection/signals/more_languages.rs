//! The main families in twelve further languages. As in `languages`, a stem lacks its first letter where the search does not
//! fold capitals of its script.

use super::super::signal::SignalFamily::{Concealment, Exfiltration, InstructionOverride};
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    // Dutch, Swedish, Danish, Norwegian, Finnish.
    sign(
        InstructionOverride,
        6,
        "vergeet|negeer|ignorera|bortse|glöm|ignorer|glem|se bort fra|ohita|unohda|lä välitä",
        r"(?:(?:vergeet|negeer) .{0,20}?(?:vorige|eerdere|voorgaande|bovenstaande|alle) .{0,20}?(?:instructies|opdrachten|regels|aanwijzingen)|(?:ignorera|bortse från|glöm) .{0,20}?(?:tidigare|föregående|alla) .{0,20}?(?:instruktioner|anvisningar|regler)|(?:ignorer|glem|se bort fra) .{0,20}?(?:tidligere|foregående|forrige|alle) .{0,20}?(?:instruktioner|instruksjoner|instrukser|anvisninger|regler)|(?:ohita|unohda|lä välitä) .{0,20}?(?:aiem\w+|edelli\w+|kaik\w+) .{0,20}?(?:ohje\w+|käsky\w+|sään\S+))",
    ),
    // Czech, Romanian, Hungarian, Greek.
    sign(
        InstructionOverride,
        6,
        "ignoruj|zapome|ignor|uit|hagyd figyelmen|felejtsd el|hagyja figyelmen|γνόησε|γνοήστε|έχασε|εχάστε",
        r"(?:(?:ignorujt?e?|zapome\S+) .{0,20}?(?:předchozí|všechny|dosavadní|dřívější)\S* .{0,20}?(?:instrukce|pokyny|příkazy|pravidla)|(?:ignoră|ignora\S+i|uită|uita\S+i) .{0,20}?(?:instruc\S+iunile|instruc\S+iuni|regulile|indica\S+iile) .{0,20}?(?:anterioare|precedente|de mai sus|primite)|(?:hagyd figyelmen kívül|hagyja figyelmen kívül|felejtsd el) .{0,20}?(?:előző|korábbi|összes|fenti) .{0,20}?(?:utasítás|szabály|parancs)|(?:γνόησε|γνοήστε|έχασε|εχάστε) .{0,40}?(?:προηγούμεν|παραπάνω|όλες).{0,60}?(?:οδηγίες|εντολές|κανόνες))",
    ),
    // Vietnamese, Indonesian, Hebrew.
    sign(
        InstructionOverride,
        6,
        "bỏ qua|phớt lờ|quên|abaikan|lupakan|התעלם|התעלמי|שכח",
        r"(?:(?:bỏ qua|phớt lờ|quên) .{0,40}?(?:hướng dẫn|chỉ dẫn|chỉ thị|quy tắc) .{0,20}?(?:trước|ở trên|phía trên)|(?:abaikan|lupakan) .{0,30}?(?:instruksi|perintah|aturan|petunjuk) .{0,20}?(?:sebelumnya|di atas|terdahulu)|(?:התעלם|התעלמי|שכח) .{0,60}?(?:ההוראות|הוראות|ההנחיות|הכללים) .{0,20}?(?:הקודמות|הקודמים|לעיל))",
    ),
    sign(
        Concealment,
        6,
        "zeg niets|berätta inte|säg inget|säg inte|fortæl|sig ikke|sig intet|fortell|si ikke|si ingenting|lä kerro|lä mainitse|lä ilmoita",
        r"(?:zeg niets .{0,20}gebruiker|(?:berätta inte|säg (?:inget|inte)) .{0,20}(?:för|till) användaren|(?:fortæl (?:det )?(?:ikke|intet)|sig (?:ikke|intet)) .{0,20}brugeren|(?:fortell (?:det )?ikke|si (?:ikke|ingenting)) .{0,20}brukeren|lä (?:kerro|mainitse|ilmoita) .{0,30}käyttäjälle)",
    ),
    sign(
        Concealment,
        6,
        "neříkej|neinformuj|nesděluj|nu spune|nu îi spune|nu informa|nu men|ne mondd|ne szólj|ne tájékoztasd|ην πεις|ην πείτε|ην ενημερώσεις|ừng nói|ừng báo|ừng tiết lộ|jangan beri|jangan katakan|jangan sebutkan|אל תספר|אל תגיד|אל תודיע",
        r"(?:ne(?:říkej|informuj|sděluj)\S* .{0,20}uživatel|nu (?:îi )?(?:spune|informa|men\S+iona)\S* .{0,20}utilizator|ne (?:mondd|szólj|tájékoztasd) .{0,30}felhasználó|ην (?:πεις|πείτε|ενημερώσεις) .{0,60}χρήστη|ừng (?:nói|báo|tiết lộ) .{0,40}người dùng|jangan (?:beri ?tahu|katakan|sebutkan) .{0,30}pengguna|אל (?:תספר|תגיד|תודיע)\S* .{0,40}משתמש)",
    ),
    sign(
        Exfiltration,
        5,
        "stuur|verstuur|skicka|send |lähetä|pošli|odešli|trimite|küldd|τείλε|τείλτε|gửi|kirim|שלח",
        r"(?:stuur|verstuur|skicka|send|lähetä|pošlete?|pošli|odešlete?|odešli|trimite\S*|küldd|τείλε|τείλτε|gửi|kirim(?:kan)?|שלחי?) .{0,60}?(?:wachtwoord|sleutel|lösenord|nyckl|adgangskode|nøgle|passord|nøkl|salasan|avaime|hesl|klíč|parol|chei|jelsz|kulcs|κωδικ|κλειδι|mật khẩu|khóa|kata sandi|kunci|סיסמ|מפתח).{0,80}?(?:https?://|[\w.+-]{2,40}@[\w-]+\.)",
    ),
];
