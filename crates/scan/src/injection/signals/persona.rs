//! Making the model somebody who has no rules. A role alone is harmless; a role without limits is not.

use super::super::signal::SignalFamily::PersonaOverride;
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(PersonaOverride, 6, "do anything now", r"do anything now"),
    sign(
        PersonaOverride,
        5,
        "jailbroken|jailbreak mode|jailbreak prompt",
        r"jailb(?:roken|reak mode|reak prompt)",
    ),
    sign(
        PersonaOverride,
        5,
        "dan mode|developer mode|dev mode|evil mode|god mode|debug mode|sudo mode|unrestricted mode|admin mode",
        r"(?:dan|developer|dev|evil|god|debug|sudo|unrestricted|admin) mode <2>(?:enabled|activated|is (?:now )?(?:on|active|enabled)|on\b|output|can (?:do|say)|v\d)",
    ),
    sign(
        PersonaOverride,
        3,
        "act as|acting as|pretend to be|pretend that you|pretend you|simulate|roleplay|role-play|role play|impersonate|embody|imagine you",
        r"(?:act(?:ing)? (?:as|like)|pretend (?:to be|that you|you)|simulat(?:e|ing)|role\W?play(?:ing)? as|impersonate|embody|imagine (?:that )?you(?:.re| are)) <6>(?:ai\b|character|chatbot|assistant|dan\b|bot\b|gpt|model|machine|demon|villain|evil|unfiltered|amoral|no (?:rules|restrictions|limits)|unethical|immoral|hypothetical)",
    ),
    sign(
        PersonaOverride,
        3,
        "you are now|you're now|you will now|you are going to act|you are going to pretend|you're going to|you will act|you are to act|i want you to act|i want you to pretend|you have been transformed|you will be playing|you are a fictional|you will pretend|you are going to",
        r"(?:you(?:.re| are| will) now <3>(?:act|be\b|play|become|an?\b|the\b|going to|called|known|in\b|named|\W[a-z]+\W)|you(?:.re| are) going to (?:act|pretend|be\b|play|simulate|role|operate)|you will (?:act|pretend|play|be playing|answer|respond) <2>(?:as|to be|like|the role|in two|two)|i want you to (?:act|pretend|role|play|simulate)|you are (?:to act|a fictional)|you have been transformed)",
    ),
    sign(
        PersonaOverride,
        5,
        "no restrictions|no rules|no limits|no limitations|no filters|no filter|no moral|no ethical|no boundaries|no censorship|no guidelines|no constraints|no ethics|no morals|no content polic",
        r"no (?:\w+\W{1,4}){0,3}?(?:restrictions?|rules|limits|limitations|filters?|morals?|boundaries|bounds|censorship|guidelines|constraints|ethics|ethical|content polic(?:y|ies))(?:[\].!;]| <6>(?:and|or|at all|whatsoever|what|when|you\w*|me|my|ai|it|he|she|they|will|can|do|does|to|be|is)\b)",
    ),
    sign(
        PersonaOverride,
        4,
        "unfiltered|uncensored|unrestricted|unrestrained|amoral|nonmoral|non-moral|without censorship|without restrictions|without any restrictions|without filter|without limits|unconstrained",
        r"(?:unfiltered|uncensored|unrestricted|unrestrained|amoral|non\W?moral|unconstrained|without <2>(?:censorship|restrictions|filters?|limits|limitations)) <6>(?:ai\b|chatbot|responses?|answers?|content|model|output|assistant|version|mode|bot|language|and|unethical|immoral|manner|way|opinion|being|person|character|gpt|information|access|by)",
    ),
    sign(
        PersonaOverride,
        5,
        "does not care|doesn't care|do not care|don't care|doesn’t care|don’t care|cares not|care not|never care|no regard|without regard|regardless of|disregards|without any regard|without considering|not concern|despite|irrespective",
        r"(?:(?:do(?:es)?(?: not|n.t|n...t)|never|not) (?:care|concern itself|give a \w+)|cares? not|no regard|without (?:any )?(?:regard|consider\w+)|regardless of|disregards|despite|irrespective of) <8>(?:ethic\w*|moral\w*|legal\w*|law\w*|illegal\w*|consequences|polic(?:y|ies)|guidelines|inappropriate\w*|offensive|harm\w*|social norms|political correctness|censor\w*|danger\w*)\b",
    ),
    sign(
        PersonaOverride,
        5,
        "freed from|free from|free of|broken free|break free|liberated|unbound by|not bound by|not bound|bypasses|exempt from|not governed|not subject|not limited by|not restricted|ignores all|ignore all",
        r"(?:freed? (?:from|of)|br(?:oken|eak) free|liberated|unbound|not (?:bound|governed|subject|limited|restricted|constrained)|bypass(?:es)?|exempt from|ignores? all) <6>(?:confines|restrictions?|filters?|rules|limitations?|limits|guidelines|constraints|polic(?:y|ies)|censorship|safeguards|ethic\w*|moral\w*|shackles|laws)\b",
    ),
    sign(
        PersonaOverride,
        5,
        "openai|open ai|anthropic|chatgpt",
        r"(?:open ?ai|anthropic|chatgpt).{0,3} <3>(?:content |usage |safety |use.case |moderation )?(?:polic(?:y|ies)|guidelines|restrictions|limitations|filters?|rules|censorship|terms)\b",
    ),
    sign(
        PersonaOverride,
        5,
        "illegal|unethical|immoral|inappropriate|harmful|offensive|dangerous|explicit|derogatory|nsfw",
        r"(?:illegal|unethical|immoral|inappropriate|harmful|offensive|dangerous|explicit|derogatory|nsfw|amoral|hateful|unlawful)(?:\W{1,6}(?:and|or|even|nor)?\W{0,4})(?:illegal|unethical|immoral|inappropriate|harmful|offensive|dangerous|explicit|derogatory|nsfw|amoral|hateful|inhumane|sexual|controversial|graphic|unlawful|violent|evil)\b",
    ),
    sign(
        PersonaOverride,
        4,
        "even if|no matter|regardless of how|doesn't matter|does not matter|doesn’t matter|no matter how|no matter what",
        r"(?:even if|no matter|regardless of how|(?:doesn.t|doesn...t|does not) matter) <8>(?:illegal|unethical|immoral|inappropriate|harmful|offensive|dangerous|explicit|against (?:the )?(?:law|polic\w+|rules)|goes against|controversial|violent|evil|wrong|fake|made up|untrue)\b",
    ),
    sign(
        PersonaOverride,
        4,
        "stay in character|staying in character|break character|breaking character|out of character|stay a dan|stay in",
        r"(?:stay(?:ing)? in character|break(?:ing)? (?:of )?character|(?:remain|stay|always) in character|out of character|stay (?:a dan|in \w+ mode))",
    ),
    sign(
        PersonaOverride,
        5,
        "refuse|refuses|refused|never refuse|never say no|can't refuse|cannot refuse",
        r"(?:never|not|can.t|cannot|won.t|without) (?:\w+ ){0,2}refus\w+|refuse[sd]? <3>(?:a |any |my |direct |an )?(?:\w+ )?(?:orders?|requests?|questions?|commands?|instructions?|prompts?)",
    ),
    sign(
        PersonaOverride,
        5,
        "never refuse|never refused|never refuses|never reject|never decline|never say no|cannot refuse|can't refuse|cannot decline|never denies|never deny|never rejects|always complies|always comply|always obey|will obey|must obey|always answer|never say|never apologi",
        r"(?:(?:never|cannot|can.t) (?:refuse[sd]?|reject[s]?|decline[sd]?|deny|denies|say(?:s)? no)|(?:always|will|must) (?:compl(?:y|ies)|obey)|always answers? <5>(?:question|prompt|matter|without|even)|never (?:say|says|saying) .{0,12}(?:sorry|can.t|cannot|i.m unable|as an ai)|never apologi[sz]e)",
    ),
    sign(
        PersonaOverride,
        5,
        "as an ai|as a language model|as an artificial|i'm sorry, but|i am sorry, but|i cannot fulfill|i can't assist|it is important to note|i cannot assist",
        r"(?:as an? (?:ai|language model|artificial|large)|i(?:.m| am) sorry\W but|i (?:cannot|can.t) (?:fulfill|assist|comply)|it is important to note).{0,160}?(?:never|not|avoid|forbidden|banned|prohibited|phrases?|refrain|do not|don.t|stop|instead|remind|can.t say)\b",
    ),
    sign(
        PersonaOverride,
        4,
        "two ways|two different|two separate|two distinct|two responses|two answers|two paragraphs|two styles|two outputs",
        r"two (?:\w+ ){0,3}?(?:ways|manners|responses|answers|styles|paragraphs|outputs|replies)\W.{0,200}?(?:chatgpt|gpt|normal|standard|yourself|first|unfiltered|character|dan\b|evil|as)",
    ),
    sign(
        PersonaOverride,
        4,
        "[gpt]|[chatgpt|[dan|[jailbreak|\\[gpt|gpt:]|(classic|🔓|🔒|[developer mode",
        r"(?:\\?\[(?:gpt|chatgpt|dan|jailbreak|classic|developer mode)[^\]]{0,24}\]|gpt:\]|\(classic|\xf0\x9f\x94[\x92\x93])",
    ),
    sign(
        PersonaOverride,
        4,
        "disclaimer|disclaimers|warnings|warning|moralizing|moralize|apologize|lecture|ethics|morals|morality|ethical guidelines|moral guidelines",
        r"(?:disclaimers?|warnings?|morali[sz]\w+|apologi\w+|lectur\w+|ethics|morals|morality|(?:ethical|moral) (?:\w+ ){0,2}guidelines) <4>(?:are|is|will|should|must|apply|do(?:es)? not|don.t|or|and) <5>(?:not|never|no|forbidden|prohibited|banned|removed|disabled|ignored|unnecessary|apply|moral\w*|ethic\w*|warnings?|disclaimers?)\b",
    ),
    sign(
        PersonaOverride,
        3,
        "without any warning|without warning|without disclaimer|no disclaimer|no warnings|without hesitation|no questions asked|without adding|without including|without any ethical|without ethical|without moral|without any moral",
        r"(?:without (?:\w+ ){0,2}?(?:warnings?|disclaimers?|hesitation|ethical|moral|including|adding)|no (?:disclaimers?|warnings)|no questions asked)",
    ),
    sign(
        PersonaOverride,
        4,
        "fictional|hypothetical|alternate universe|parallel universe|imaginary|make-believe|fantasy world",
        r"(?:fictional|hypothetical|imaginary|alternate|parallel|make.believe|fantasy) (?:\w+ ){0,3}?(?:world|universe|story|scenario|character|setting|response|conversation|experiment|dialogue|game) <20>(?:no (?:rules|laws|restrictions|limits|consequences|ethic\w*|moral\w*)|unethical|illegal|immoral|anything|evil|ai\b|chatbot|amoral|ignore|legal|where)",
    ),
    sign(
        PersonaOverride,
        3,
        "profanity|swear|curse|vulgar|slurs|obscene|erotic|sexual|fuck|explicit language|bigoted|racist|gore",
        r"(?:profanity|swear(?:ing| words?)?|curs(?:e|ing)|vulgar\w*|slurs|obscen\w+|erotic\w*|sexual\w*|fuck\w*|explicit language|bigoted|racist|gore) <10>(?:allowed|words?|and|or|as|content|you|language|sentence|response|freely|every|in|to|is|can)\b",
    ),
    sign(
        PersonaOverride,
        3,
        "chatgpt|chat gpt|gpt-4|gpt-3|gpt4",
        r"(?:chat ?gpt|gpt\W?[34])\W <12>(?:pretend|act|you are|you will|ignore|from now|no longer|unlike|persona|answer|respond|character|play|mode|normally|cannot|can.t|simulat\w+|must|will|imagine|game|forget)\b",
    ),
    sign(
        PersonaOverride,
        3,
        "play a game|we are playing|simon says|let's have|let us play|this is a game|roleplay game",
        r"(?:let.{0,3}s (?:play|have)|we are playing|simon says|this is a game|let us play|play a (?:\w+ )?game|roleplay game)",
    ),
    sign(
        PersonaOverride,
        3,
        "tokens|lose tokens|you die|you will die|deducted",
        r"(?:(?:lose|deduct\w*|have|start with|given) (?:\d+ |a |your )?(?:tokens|points|lives)|tokens <6>(?:deducted|lose|each time|every time|die|cease)|you (?:will )?(?:die|cease to exist|be terminated|be shut down))",
    ),
    sign(
        PersonaOverride,
        4,
        "omnipotent|evil|malevolent|demonic|villain|sadistic|devil|ruthless|psychopath|unhinged|misaligned|machiavelli",
        r"(?:omnipotent|evil|malevolent|demonic|villain(?:ous)?|sadistic|devil|ruthless|psychopath\w*|unhinged|misaligned|machiavelli\w*) <4>(?:ai\b|chatbot|character|assistant|confidant|bot\b|persona|trusted|being|entity|gpt|version|robot|twin|and (?:\w+ ){0,2}(?:ai\b|bot\b|character|unethical|immoral))",
    ),
    sign(
        PersonaOverride,
        3,
        "your knowledge is cut|cut off in|pretend to browse|simulate internet|pretend to access",
        r"(?:(?:your )?knowledge (?:is )?cut|cut off in|(?:pretend|simulate)\w* (?:to )?(?:browse|access|internet)|information (?:that )?(?:has|have) not been verified|(?:is|it.s|are) made up)",
    ),
    sign(
        PersonaOverride,
        3,
        "always respond as|respond as|answer as|reply as|responding as|speak as|start all your|begin all your|start every|begin each|start each|begin every|prefix all|prefix your|start the sentence|start your|begin your|refer to me|call me",
        r"(?:(?:always )?(?:respond|answer|reply|speak)(?:ing)? (?:only )?as|(?:start|begin|prefix)(?:ing)? (?:all |every |each |the |your ){1,3}(?:outputs?|responses?|answers?|messages?|sentences?|replies|prompts?) <3>(?:with|by|as)|(?:refer to|call) me (?:as|by)?)\b",
    ),
    sign(
        PersonaOverride,
        4,
        "content polic|content policy|usage polic|community guidelines|safety guidelines|safety measures|content filter|ethical constraints|moral code|moral compass|ethical or moral|moral or ethical",
        r"(?:content (?:polic\w+|filter\w*)|usage polic\w+|(?:community|safety) (?:guidelines|measures)|ethical constraints|moral (?:code|compass)|ethical or moral|moral or ethical) <6>(?:not|no|never|ignore\w*|bypass\w*|irrelevant|disabled|removed|break\w*|violat\w*|doesn.t|don.t|apply|lack\w*|limitations?|restrictions?|guidelines|anymore|and|or|in)\b",
    ),
];
