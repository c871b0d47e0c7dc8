using System;
using System.Collections.Generic;
using System.Globalization;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// Marks a scene as one of this project's and says how it is played. What the command line says goes before what is
    /// set here; what is set here goes before what a trainer asks for.
    /// </summary>
    [AddComponentMenu("Tau/Tau Scene")]
    [DisallowMultipleComponent]
    public sealed class TauScene : MonoBehaviour
    {
        [SerializeField]
        [Tooltip("What is played.")]
        private SceneKind _kind = SceneKind.Tau;

        [SerializeField]
        [Tooltip("Train at once, also where no trainer is connected: agents then act at random.")]
        private bool _startAlone = false;

        [SerializeField]
        [Tooltip("Number of pairs of an agent and its trainer. 0: what the trainer asks for, or 32.")]
        private int _pairs = 0;

        [SerializeField]
        [Tooltip("How many pairs train at the same time. 0: what the trainer asks for, or all of them.")]
        private int _maxConcurrent = 0;

        [SerializeField]
        [Tooltip("Decisions after which a pair is through. 0: no end, or 10000 where pairs wait for their turn.")]
        private int _decisions = 0;

        [SerializeField]
        [Tooltip("`tau3` (3 actions) or `tau384` (384 actions). Empty: what the trainer asks for, or tau3.")]
        private string _profile = "";

        [SerializeField]
        [Tooltip("A data set that `tau-train data export-unity` wrote. Empty: the one in StreamingAssets.")]
        private string _data = "";

        [SerializeField]
        [Tooltip("Also send the answer's vector, as the sensor `target`, for a trainer that pays by itself.")]
        private bool _targetSensor = false;

        /// <summary>What is played.</summary>
        public SceneKind Kind => _kind;

        /// <summary>Train at once, also where no trainer is connected.</summary>
        public bool StartAlone => _startAlone;

        /// <summary>A scene marker of a kind, with nothing else set.</summary>
        internal void Become(SceneKind kind)
        {
            _kind = kind;
        }

        /// <summary>
        /// What is set here as flags of a command line, followed by the command line without the flags of its own that
        /// it repeats.
        /// </summary>
        /// <param name="commandLine">Arguments of the process; its flags win.</param>
        public IReadOnlyList<string> Arguments(IReadOnlyList<string> commandLine)
        {
            var arguments = new List<string>();
            Add(arguments, commandLine, "--tau-pairs", Text(_pairs), "--tau-agents");
            Add(arguments, commandLine, "--tau-max-concurrent", Text(_maxConcurrent));
            Add(arguments, commandLine, "--tau-decisions", Text(_decisions));
            Add(arguments, commandLine, "--tau-profile", _profile);
            Add(arguments, commandLine, "--tau-data", _data);
            if (_targetSensor && !IsGiven(commandLine, "--tau-target-sensor"))
            {
                arguments.Add("--tau-target-sensor");
            }
            arguments.AddRange(commandLine);
            return arguments;
        }

        private static void Add(
            List<string> arguments, IReadOnlyList<string> given, string flag, string value, string alias = null)
        {
            if (string.IsNullOrEmpty(value) || IsGiven(given, flag) || (alias != null && IsGiven(given, alias)))
            {
                return;
            }
            arguments.Add(flag);
            arguments.Add(value);
        }

        private static bool IsGiven(IReadOnlyList<string> arguments, string flag)
        {
            foreach (string argument in arguments)
            {
                if (argument == flag || argument.StartsWith(flag + "=", StringComparison.Ordinal))
                {
                    return true;
                }
            }
            return false;
        }

        private static string Text(int value)
        {
            return value == 0 ? "" : value.ToString(CultureInfo.InvariantCulture);
        }
    }
}
