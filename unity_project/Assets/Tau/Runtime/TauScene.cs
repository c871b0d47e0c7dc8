using System;
using System.Collections.Generic;
using System.Globalization;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// Marks a scene as one of this project's and holds its settings. The command line overrides these settings, and
    /// these settings override those of a trainer.
    /// </summary>
    [AddComponentMenu("Tau/Tau Scene")]
    [DisallowMultipleComponent]
    public sealed class TauScene : MonoBehaviour
    {
        [SerializeField]
        [Tooltip("The kind of scene.")]
        private SceneKind _kind = SceneKind.Tau;

        [SerializeField]
        [Tooltip("Train at once, even if no trainer is connected: agents then act at random.")]
        private bool _startAlone = false;

        [SerializeField]
        [Tooltip("Number of pairs of an agent and its trainer. 0: the trainer's number, or 32.")]
        private int _pairs = 0;

        [SerializeField]
        [Tooltip("Number of pairs that train at the same time. 0: the trainer's number, or all of them.")]
        private int _maxConcurrent = 0;

        [SerializeField]
        [Tooltip("Decisions of each pair. 0: no limit, or 10000 if pairs take turns.")]
        private int _decisions = 0;

        [SerializeField]
        [Tooltip("`tau3` (3 actions) or `tau384` (384 actions). Empty: the trainer's profile, or tau3.")]
        private string _profile = "";

        [SerializeField]
        [Tooltip("A data set written by `tau-train data export-unity`. Empty: the one in StreamingAssets.")]
        private string _data = "";

        [SerializeField]
        [Tooltip("Also send the answer's vector, as the sensor `target`, for a trainer that computes rewards itself.")]
        private bool _targetSensor = false;

        /// <summary>The kind of scene.</summary>
        public SceneKind Kind => _kind;

        /// <summary>Train at once, even if no trainer is connected.</summary>
        public bool StartAlone => _startAlone;

        /// <summary>Sets the marker's kind; all other settings keep their defaults.</summary>
        internal void Become(SceneKind kind)
        {
            _kind = kind;
        }

        /// <summary>
        /// These settings as command-line flags that the command line does not have, followed by the command line.
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
